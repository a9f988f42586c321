//! Ports, signals and the ends of child processes.

use std::{
    net::{Ipv4Addr, TcpListener, UdpSocket},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::Instant;

const POLL: Duration = Duration::from_millis(10);

/// A loopback port that is free, for this process as long as it lives. Needed where a process must listen on the same port after a restart;
/// anything else should listen on port 0.
///
/// Taken from below the ports that systems hand out by themselves: a port from among those is soon somebody's connection.
pub fn free_port() -> Result<u16> {
    const FIRST: u32 = 10_240;
    const COUNT: u32 = 22_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Whoever gets a port needs a moment to use it. Until the process ends, the UDP port of the same number, which nobody
    // else wants, tells the processes beside it that it is taken.
    static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    // Test processes run side by side, each on a walk of its own.
    let start = std::process::id().wrapping_mul(61);
    for _ in 0..COUNT {
        let step = TRIED.fetch_add(1, Ordering::Relaxed).wrapping_mul(7_919);
        let port = u16::try_from(FIRST + start.wrapping_add(step) % COUNT).context("port")?;
        let address = (Ipv4Addr::LOCALHOST, port);
        if let Ok(claim) = UdpSocket::bind(address)
            && TcpListener::bind(address).is_ok()
        {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return Ok(port);
        }
    }
    bail!("no free port")
}

/// Sends a signal by name. The shell does it, because the call itself would be unsafe code.
pub(super) fn signal(child: &Child, name: &str) -> Result<()> {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &child.id().to_string()])
        .stdin(Stdio::null())
        .status()
        .context("sh")?;
    ensure!(status.success(), "process {} took no SIG{name}", child.id());
    Ok(())
}

/// Waits for the end of a process; `None` if it outlives the deadline.
pub(super) async fn exit_within(child: &mut Child, deadline: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().context("waiting for a process")? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Ends a process and waits for it, without a runtime: for `Drop`. Asks by `polite` first, if given.
pub(super) fn end_now(child: &mut Child, polite: Option<&str>) {
    if let Some(name) = polite
        && signal(child, name).is_ok()
    {
        for _ in 0..300 {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
    }
    // Fails only if it has ended already; waiting afterwards leaves no zombie.
    let _ = child.kill();
    let _ = child.wait();
}
