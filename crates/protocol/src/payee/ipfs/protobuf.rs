//! The part of protocol buffers that IPFS uses: numbers, and byte strings.

/// What stands in one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message in their order, up to the first that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        const NUMBER: u64 = 0;
        const BYTES: u64 = 2;
        let tag = number(&mut self.0)?;
        let value = match tag & 7 {
            NUMBER => Value::Number(number(&mut self.0)?),
            BYTES => {
                let length = usize::try_from(number(&mut self.0)?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    /// `None`: what follows is no field.
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// A base-128 number, taken from the front.
pub(super) fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let digits = u64::from(byte & 0x7f);
        number |= digits.checked_shl(shift).filter(|shifted| shifted >> shift == digits)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_where_64_bits_do() {
        let read = |mut bytes: &[u8]| number(&mut bytes).map(|number| (number, bytes.len()));
        assert_eq!(read(&[0x00, 9]), Some((0, 1)));
        assert_eq!(read(&[0xac, 0x02]), Some((300, 0)));
        let most = [[0xff; 9].as_slice(), &[0x01]].concat();
        assert_eq!(read(&most), Some((u64::MAX, 0)));
        for broken in [
            &[][..],
            &[0x80],
            &[[0xff; 9].as_slice(), &[0x02]].concat(),
            &[[0x80; 10].as_slice(), &[0]].concat(),
        ] {
            assert_eq!(read(broken), None);
        }
    }

    #[test]
    fn a_message_is_read_up_to_what_is_no_field() {
        let read = |bytes| Fields::of(bytes).collect::<Vec<_>>();
        assert_eq!(read(&[]), []);
        assert_eq!(
            read(&[0x08, 2, 0x12, 2, b'h', b'i']),
            [Some((1, Value::Number(2))), Some((2, Value::Bytes(b"hi")))]
        );
        for broken in [&[0x08][..], &[0x12, 3, b'h', b'i'], &[0x0d, 0, 0, 0, 0], &[0x09, 0]] {
            assert_eq!(read(broken), [None]);
        }
    }
}
