//! Places for requests in flight: so many in all, and half of them for one payer, so that a burst of one payer leaves the
//! other half to everybody else. What finds no place is told so at once.
//!
//! The payer is who the payment says it is: nothing is proven yet. Whoever floods in another's name keeps that payer out as
//! long as the flood lasts, as a flood in many names would keep out everybody.

use alloy_primitives::Address;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests worked on at the same time, all connections together.
const IN_FLIGHT_MAX: usize = 2048;
/// Of these, those that name one payer.
const IN_FLIGHT_PER_PAYER_MAX: usize = IN_FLIGHT_MAX / 2;

/// All places.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    by_payer: Arc<Mutex<HashMap<Address, usize>>>,
}

/// A place among all. Given back when its last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// A place among those of one payer. Work that outlives its request keeps it.
#[derive(Debug)]
pub(crate) struct PayerPlace {
    places: Places,
    payer: Address,
    _place: Place,
}

impl Default for Places {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(IN_FLIGHT_MAX)), by_payer: Arc::default() }
    }
}

impl Places {
    /// `None`: all are taken.
    pub(super) fn take(&self) -> Option<Place> {
        let permit = self.all.clone().try_acquire_owned().ok()?;
        Some(Place { _permit: Arc::new(permit) })
    }

    /// `None`: this payer has all of its own.
    pub(super) fn take_for(&self, payer: Address, place: Place) -> Option<PayerPlace> {
        let mut by_payer = self.lock();
        let taken = by_payer.entry(payer).or_default();
        if *taken >= IN_FLIGHT_PER_PAYER_MAX {
            return None;
        }
        *taken += 1;
        Some(PayerPlace { places: self.clone(), payer, _place: place })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Address, usize>> {
        self.by_payer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PayerPlace {
    fn drop(&mut self) {
        let mut by_payer = self.places.lock();
        if let Some(taken) = by_payer.get_mut(&self.payer) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                by_payer.remove(&self.payer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(places: &Places, payer: u8) -> Option<PayerPlace> {
        places.take_for(Address::repeat_byte(payer), places.take()?)
    }

    #[test]
    fn one_payer_has_half_and_two_have_all() {
        let places = Places::default();
        let mut held: Vec<_> = std::iter::from_fn(|| one(&places, 1)).collect();
        assert_eq!(held.len(), IN_FLIGHT_PER_PAYER_MAX);
        held.extend(std::iter::from_fn(|| one(&places, 2)));
        assert_eq!(held.len(), IN_FLIGHT_MAX);
        assert!(one(&places, 3).is_none());
        held.pop();
        assert!(one(&places, 1).is_none());
        assert!(one(&places, 3).is_some());
        drop(held);
        assert!(places.lock().is_empty());
        assert_eq!(places.all.available_permits(), IN_FLIGHT_MAX);
    }

    #[test]
    fn a_place_is_taken_until_the_last_who_works_there_has_gone() {
        let places = Places::default();
        let request = Arc::new(one(&places, 1).unwrap());
        let work = request.clone();
        drop(request);
        assert_eq!(places.all.available_permits(), IN_FLIGHT_MAX - 1);
        drop(work);
        assert_eq!(places.all.available_permits(), IN_FLIGHT_MAX);
    }
}
