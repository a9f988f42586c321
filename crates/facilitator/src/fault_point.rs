//! Named places where a test ends the process as `kill -9` would: nothing is unwound, flushed or given back.
//!
//! A development build started with `QUITTANCE_FAULT_POINT=NAME` ends the first time it gets there, with `NAME:3` the third
//! time; with `NAME:3:freeze` it stops there as by SIGSTOP, and goes on by SIGCONT. Other builds have no fault points and do not
//! look at the variable.

use crate::config::ConfigError;
use std::{
    io::Write as _,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// The variable that arms a point.
pub const VARIABLE: &str = "QUITTANCE_FAULT_POINT";

macro_rules! points {
    ($($(#[$doc:meta])+ $point:ident = $name:literal,)+) => {
        /// Every place between two things that are written down or sent. What each leaves behind is in docs/SETTLEMENT.md.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Point {
            $($(#[$doc])+ $point,)+
        }

        impl Point {
            /// Every point, in the order of a payment's life.
            pub const ALL: &'static [Self] = &[$(Self::$point,)+];

            /// The name that arms it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

points! {
    // verify
    /// `/verify` has reserved and told nobody.
    VerifyReserved = "verify-reserved",
    /// The caller of `/verify` was gone; its reservation still stands.
    PromiseLost = "promise-lost",
    /// That reservation is given up.
    PromiseTakenBack = "promise-taken-back",
    /// The reservation of a dead authorization has ended.
    ReservationsExpired = "reservations-expired",
    /// Old idempotency keys are forgotten.
    KeysForgotten = "keys-forgotten",

    // settle
    /// An idempotency key is bound to a payment of which nothing else is known.
    KeyBound = "key-bound",
    /// The rules say yes; nothing is written.
    SettleJudged = "settle-judged",
    /// The rules say no to a payment that may be reserved.
    RefusalDue = "refusal-due",
    /// The reservation, if the refusal ends it, is dropped.
    RefusalWritten = "refusal-written",
    /// `/settle` has reserved.
    SettleReserved = "settle-reserved",
    /// An identifier is bound to a payment that was reserved without it.
    IdentifierBound = "identifier-bound",
    /// Signed inside the transaction that is to store slot and bytes.
    SettleSigning = "settle-signing",
    /// Slot and bytes are stored and not sent.
    SettleSigned = "settle-signed",
    /// Bytes went out, the first time or again; what the node said is not looked at.
    Sent = "sent",

    // the keeper
    /// A signer's transaction count is stored.
    LaneIntroduced = "lane-introduced",
    /// The keeper's lease is taken.
    KeeperLeased = "keeper-leased",
    /// A receipt, its disappearance, or proof that the payment will not be ours moves a payment, in memory only.
    TransitionDue = "transition-due",
    /// That move is stored; nobody who waits knows.
    TransitionStored = "transition-stored",
    /// A receipt at depth settles a payment, in memory only.
    ConcludeDue = "conclude-due",
    /// Outcome and closed slot are stored; nobody who waits knows.
    Concluded = "concluded",
    /// The payment is final, its slot still open.
    SlotCloseDue = "slot-close-due",
    /// The slot is closed.
    SlotClosed = "slot-closed",
    /// A foreign transaction has taken a slot's nonce; nothing is written about it.
    ForeignSeen = "foreign-seen",
    /// The lane's next nonce is above it.
    LaneFloorRaised = "lane-floor-raised",
    /// The slot is closed; its payment has none.
    ForeignSlotClosed = "foreign-slot-closed",
    /// Signed again inside the transaction that is to store slot and bytes.
    SigningAgain = "signing-again",
    /// The new slot and its bytes are stored and not sent.
    SignedAgain = "signed-again",
    /// A replacement is signed inside the transaction that is to store it.
    Replacing = "replacing",
    /// The replacement is stored and not sent.
    Replaced = "replaced",
    /// A slot that a reorganisation has undone is open again, and nothing sent.
    SlotReopened = "slot-reopened",
    /// A filler for a hole is signed inside the transaction that is to store it.
    HoleFilling = "hole-filling",
    /// The filler is stored and not sent.
    HoleFilled = "hole-filled",

    // the answer
    /// One caller holds the answer; nothing is recorded.
    AnswerLeased = "answer-leased",
    /// The answer is recorded, and not a byte of it written.
    AnswerBegun = "answer-begun",
    /// Every byte of it is written; the record does not say so.
    AnswerWritten = "answer-written",
    /// The record says so.
    AnswerReleased = "answer-released",
    /// The caller was gone; the record says that it was told.
    AnswerLost = "answer-lost",
    /// The answer is taken back.
    AnswerTakenBack = "answer-taken-back",
    /// An answer that grants nothing is about to be stored under its idempotency key.
    KeyedAnswerDue = "keyed-answer-due",
    /// It is stored, and not written.
    KeyedAnswerStored = "keyed-answer-stored",

    // the end
    /// Told to stop, the listener closed; what runs in the background is not waited for.
    Stopping = "stopping",
}

#[derive(Debug)]
struct Armed {
    point: Point,
    left: AtomicU32,
    freezes: bool,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Arms what [`VARIABLE`] names. A name that is no point is an error: a test must not pass because nothing happened.
pub(crate) fn arm(setting: Option<&str>) -> Result<(), ConfigError> {
    if let Some(setting) = setting.filter(|_| cfg!(debug_assertions)) {
        let armed = setting.parse()?;
        ARMED.get_or_init(|| armed);
    }
    Ok(())
}

impl FromStr for Armed {
    type Err = ConfigError;

    fn from_str(setting: &str) -> Result<Self, ConfigError> {
        let (setting, freezes) = match setting.strip_suffix(":freeze") {
            Some(setting) => (setting, true),
            None => (setting, false),
        };
        let (name, times) = setting.split_once(':').unwrap_or((setting, "1"));
        let point = Point::ALL.iter().copied().find(|point| point.as_str() == name);
        let point = point.ok_or_else(|| ConfigError::value(VARIABLE, "no fault point has this name"))?;
        let left = times.parse().ok().filter(|times| *times > 0);
        let left = left.ok_or_else(|| ConfigError::value(VARIABLE, "which time it is must be 1 or more"))?;
        Ok(Self { point, left: AtomicU32::new(left), freezes })
    }
}

/// Ends or freezes the process here if this point is armed.
#[inline]
pub(crate) fn reached(point: Point) {
    if cfg!(debug_assertions)
        && let Some(armed) = ARMED.get()
        && armed.point == point
        && armed.left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        let _ = writeln!(std::io::stderr(), "fault point reached: {}", point.as_str());
        if !armed.freezes {
            std::process::abort();
        }
        // Sent to this very thread, so that it is the one to stop first, and the others with it: it must not get past this point.
        let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        let thread = thread.file_name().unwrap_or_default();
        let _ = std::process::Command::new("sh").args(["-c", "kill -s STOP \"$0\""]).arg(thread).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_arms_its_own_point() {
        for &point in Point::ALL {
            let armed: Armed = point.as_str().parse().unwrap();
            assert_eq!((armed.point, armed.left.into_inner(), armed.freezes), (point, 1, false));
        }
        for (setting, freezes) in [("sent:3", false), ("sent:3:freeze", true)] {
            let third: Armed = setting.parse().unwrap();
            assert_eq!((third.point, third.left.into_inner(), third.freezes), (Point::Sent, 3, freezes));
        }
    }

    #[test]
    fn what_names_no_point_is_refused() {
        for setting in
            ["", "SENT", "sent ", "sent:", "sent:0", "sent:-1", "sent:2:3", "sent:freeze:3", "nowhere"]
        {
            assert!(setting.parse::<Armed>().is_err(), "{setting:?}");
        }
        assert!(arm(None).is_ok());
    }
}
