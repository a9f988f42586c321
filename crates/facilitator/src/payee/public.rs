//! Which addresses a stranger's URL may lead to: global unicast, and nothing that stands for something else
//! (spec/payee.md §2.7, IANA special-purpose registries).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is out in the world. Everything that is not known to be is not.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

const SPECIAL_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),       // "this network"; some systems take it for loopback
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // carrier-grade NAT; also clouds' inner services
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local; clouds' metadata
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 3),     // multicast, reserved, broadcast
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let address = u32::from(address);
    !SPECIAL_V4.iter().any(|(network, length)| {
        let differing = address ^ u32::from(Ipv4Addr::from(*network));
        differing.checked_shr(32 - length).is_none_or(|prefix| prefix == 0)
    })
}

/// Only 2000::/3 is global unicast; that leaves out `::1`, v4-mapped, NAT64 (64:ff9b::/96), fc00::/7, fe80::/10, ff00::/8.
const GLOBAL_V6: (u128, u32) = (0x2000 << 112, 3);

const SPECIAL_V6: &[(u128, u32)] = &[
    (0x2001 << 112, 23), // protocol assignments, Teredo among them, which hides an IPv4 address
    (0x2001_0db8 << 96, 32), // documentation
    (0x2002 << 112, 16), // 6to4, which hides an IPv4 address
    (0x3fff << 112, 20), // documentation
];

fn is_public_v6(address: Ipv6Addr) -> bool {
    let address = u128::from(address);
    let within = |(network, length): (u128, u32)| (address ^ network) >> (128 - length) == 0;
    within(GLOBAL_V6) && !SPECIAL_V6.iter().any(|special| within(*special))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_global_unicast_is_public() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2606:4700::1",
            "2001:4860::1",
            "2003::1",
            "3ffe::1",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for special in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
    }
}
