//! Failed logins by the address that they came from. An address with too many is not heard for a
//! while, so that a password is guessed as slowly as an operator wants it, however many connections
//! guess. Pure, so that a test holds the clock.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Addresses that are kept, a few dozen bytes each. Whoever has so many of them is slowed by the
/// hash itself, which one thread computes.
const ADDRESSES_MAX: usize = 4096;

/// For which time an address may fail in one go.
const WINDOW: Duration = Duration::from_secs(60);

/// Who has failed, and until when that counts.
pub(super) struct Failures {
    /// Time that forgives one failure.
    forgives: Duration,
    /// When all failures of an address will be forgiven.
    clear_at: HashMap<IpAddr, Instant>,
}

impl Failures {
    /// An address may fail `per_minute` times in a minute.
    pub(super) fn new(per_minute: u32) -> Failures {
        Failures { forgives: WINDOW / per_minute, clear_at: HashMap::new() }
    }

    /// Whether a login from `address` is heard.
    pub(super) fn hears(&self, address: IpAddr, now: Instant) -> bool {
        let Some(clear_at) = self.clear_at.get(&network(address)) else { return true };
        clear_at.saturating_duration_since(now) + self.forgives <= WINDOW
    }

    /// Notes that a login from `address` has failed. What waited while it did is counted as well, and
    /// has to be forgiven before the next one is heard.
    pub(super) fn add(&mut self, address: IpAddr, now: Instant) {
        let address = network(address);
        if self.clear_at.len() == ADDRESSES_MAX && !self.clear_at.contains_key(&address) {
            self.make_room(now);
        }
        let clear_at = self.clear_at.entry(address).or_insert(now);
        *clear_at = (*clear_at).max(now) + self.forgives;
    }

    /// Forgets whoever is forgiven, or else who would be first.
    fn make_room(&mut self, now: Instant) {
        self.clear_at.retain(|_, clear_at| *clear_at > now);
        if self.clear_at.len() == ADDRESSES_MAX {
            let first = self.clear_at.iter().min_by_key(|(_, clear_at)| **clear_at);
            let first = *first.expect("there are many").0;
            self.clear_at.remove(&first);
        }
    }
}

/// What one party has to itself: of IPv6, 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn an_address_fails_so_often_in_a_minute_and_others_are_heard() {
        let (mut failures, now) = (Failures::new(6), Instant::now());
        let at = |secs| now + Duration::from_secs(secs);
        for _ in 0..6 {
            assert!(failures.hears(v4(1), now));
            failures.add(v4(1), now);
        }
        assert!(!failures.hears(v4(1), now) && failures.hears(v4(2), now));
        assert!(!failures.hears(v4(1), at(9)) && failures.hears(v4(1), at(10)), "one in 10 s");
        failures.add(v4(1), at(10));
        assert!(!failures.hears(v4(1), at(19)) && failures.hears(v4(1), at(20)));
        // Those that were under way together count, too.
        for _ in 0..3 {
            failures.add(v4(1), at(20));
        }
        assert!(!failures.hears(v4(1), at(49)) && failures.hears(v4(1), at(50)));
        let heard = (0..20).filter(|_| {
            let heard = failures.hears(v4(1), at(500));
            failures.add(v4(1), at(500));
            heard
        });
        assert_eq!(heard.count(), 6, "all is forgiven, and nothing is saved up");
    }

    #[test]
    fn an_address_is_what_one_party_has() {
        let (mut failures, now) = (Failures::new(1), Instant::now());
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        failures.add(ip("2001:db8::1"), now);
        failures.add(ip("::ffff:10.0.0.1"), now);
        for (address, heard) in [
            ("2001:db8::2:3:4:5", false),
            ("2001:db8:0:1::1", true),
            ("10.0.0.1", false),
            ("10.0.0.2", true),
        ] {
            assert_eq!(failures.hears(ip(address), now), heard, "{address}");
        }
    }

    /// However many addresses there are; those with most to be forgiven are kept.
    #[test]
    fn so_many_addresses_are_kept_and_no_more() {
        let (mut failures, now) = (Failures::new(2), Instant::now());
        failures.add(v4(0), now);
        failures.add(v4(0), now);
        for number in 1..3 * ADDRESSES_MAX as u32 {
            failures.add(v4(number), now);
            assert!(failures.clear_at.len() <= ADDRESSES_MAX);
        }
        assert!(!failures.hears(v4(0), now));
        failures.add(v4(u32::MAX), now + 2 * WINDOW);
        assert_eq!(failures.clear_at.len(), 1, "who is forgiven is forgotten");
    }
}
