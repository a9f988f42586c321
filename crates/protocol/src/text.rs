//! Text that comes from strangers (token names, revert reasons) and is shown to people.

/// Longer runs of hex digits are more than an address: keys, hashes, signatures.
const HEX_DIGITS_MAX: usize = 40;

/// Letters, digits and ASCII punctuation in words one space apart, at most `characters_max` long, without URLs (they carry
/// provider keys) and long hex (it may be a signature).
///
/// Everything else goes: control characters, but also the invisible ones that reorder or hide what stands beside them.
/// It goes before the words are judged, so that nothing invisible can hold a URL apart.
pub(crate) fn printable(text: &str, characters_max: usize) -> String {
    let visible: String = text
        .chars()
        .filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c if c.is_alphanumeric() || c.is_ascii_graphic() => Some(c),
            _ => None,
        })
        .collect();
    visible.split_whitespace().map(word).collect::<Vec<_>>().join(" ").chars().take(characters_max).collect()
}

fn word(word: &str) -> &str {
    if word.contains("://") {
        return "(url)";
    }
    let hex = word.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max().unwrap_or(0);
    if hex > HEX_DIGITS_MAX { "(hex)" } else { word }
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn only_visible_text_is_left() {
        for (text, shown) in [
            ("", ""),
            ("USD Coin", "USD Coin"),
            ("a\r\n\tb\u{0}c", "a bc"),
            ("\u{1b}[31mred", "[31mred"),
            ("le\u{202e}ft", "left"),
            ("z\u{200b}\u{feff}ero", "zero"),
            ("Éléphant 象", "Éléphant 象"),
        ] {
            assert_eq!(printable(text, 64), shown, "{text:?}");
        }
    }

    #[test]
    fn urls_and_long_hex_are_named_and_not_shown() {
        let address = format!("0x{}", "a".repeat(40));
        assert_eq!(printable(&address, 64), address);
        assert_eq!(printable(&format!("0x{}", "a".repeat(41)), 64), "(hex)");
        assert_eq!(printable(&format!("sig={}!", "0f".repeat(65)), 64), "(hex)");
        assert_eq!(printable("see https://rpc.example/v2/key now", 64), "see (url) now");
        assert_eq!(printable("http:\u{7}//rpc.example/key", 64), "(url)");
        assert_eq!(printable("http:\u{200b}//rpc.example/key", 64), "(url)");
    }

    #[test]
    fn the_cap_counts_characters() {
        assert_eq!(printable(&"é".repeat(9), 8), "é".repeat(8));
        assert_eq!(printable(&"é".repeat(8), 8), "é".repeat(8));
    }
}
