//! Large directories are hash tables (HAMT): which slot of which level a name is in.

/// The digits of a name's hash, of which each level takes as many bits as it has slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    hash: u64,
    bits_left: u32,
}

impl Slots {
    pub(super) fn of(name: &[u8]) -> Self {
        Self { hash: murmur3_x64_64(name), bits_left: u64::BITS }
    }

    /// What the name of a link begins with in the next level, which has `fanout` slots; `None`: the hash is used up.
    pub(super) fn next(&mut self, fanout: u64) -> Option<String> {
        let bits = fanout.ilog2();
        self.bits_left = self.bits_left.checked_sub(bits)?;
        let slot = (self.hash >> self.bits_left) & fanout.saturating_sub(1);
        let width = format!("{:X}", fanout.saturating_sub(1)).len();
        Some(format!("{slot:0width$X}"))
    }
}

/// The first half of MurmurHash3 x64 128 with seed 0 (Austin Appleby, public domain).
fn murmur3_x64_64(bytes: &[u8]) -> u64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let finish = |mut h: u64| {
        for multiplier in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53, 1] {
            h = (h ^ (h >> 33)).wrapping_mul(multiplier);
        }
        h
    };
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte));
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        let (low, high) = block.split_at(8);
        h1 =
            (h1 ^ mix1(word(low))).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ mix2(word(high)))
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    let rest = blocks.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    h1 ^= mix1(word(low));
    h2 ^= mix2(word(high));
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    h1 = (h1 ^ length).wrapping_add(h2 ^ length);
    h2 = (h2 ^ length).wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_murmurs() {
        // From the reference implementation.
        for (text, hash) in [
            ("", 0),
            ("hello", 0xcbd8_a7b3_41bd_9b02),
            ("hello, world", 0x342f_ac62_3a5e_bc8e),
            ("The quick brown fox jumps over the lazy dog.", 0xcd99_481f_9ee9_02c9),
        ] {
            assert_eq!(murmur3_x64_64(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn each_level_takes_its_bits_until_there_are_none() {
        let mut slots = Slots { hash: 0x0123_4567_89ab_cdef, bits_left: 64 };
        let levels: Vec<_> = (0..9).map(|_| slots.next(256)).collect();
        let expected = ["01", "23", "45", "67", "89", "AB", "CD", "EF"].map(|slot| Some(slot.to_owned()));
        assert_eq!(levels, [expected.as_slice(), &[None]].concat());
        let mut slots = Slots { hash: 0x0123_4567_89ab_cdef, bits_left: 64 };
        assert_eq!((slots.next(16), slots.next(1024)), (Some("0".into()), Some("048".into())));
    }
}
