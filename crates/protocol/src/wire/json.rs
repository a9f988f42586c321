//! From bytes to JSON. Only what is not JSON by its grammar is refused as such: what is JSON and cannot be held as it stands
//! is mended as far as needed to be judged, or ignored, like every other body.

use super::{Echo, Refusal};
use crate::code::Code;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Levels of arrays and objects; the reader takes no more.
const DEPTH_MAX: usize = 127;

/// The body of a request that is JSON.
#[derive(Clone, Debug)]
pub struct Json {
    value: Value,
    is_whole: bool,
}

impl Json {
    /// `None`: it is not JSON.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        if let Some(value) = plain(text) {
            return Some(Self { value, is_whole: true });
        }
        // This looks at the grammar alone: it decodes no escape, weighs no number, and does not recurse.
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        let (text, is_whole) = mended(text);
        Some(Self { value: plain(&text)?, is_whole })
    }

    /// What an answer repeats of it.
    pub fn echo(&self) -> Echo {
        Echo::of(&self.value)
    }

    /// What is to be judged. A body that is nested too deeply is judged by that.
    pub fn whole(&self) -> Result<&Value, Refusal> {
        match self.is_whole {
            true => Ok(&self.value),
            false => Err(Refusal::new(
                Code::InvalidPayload,
                format!("the request body is nested deeper than {DEPTH_MAX} levels"),
            )),
        }
    }
}

/// The value of a text, as far as it can be held.
pub(crate) fn plain(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().map(|Plain(value)| value)
}

/// A value read member by member. `Value` reads itself almost like that, but takes one name (`$serde_json::private::RawValue`)
/// for a text that is JSON of its own, with a nesting of its own: with such texts in one another the stack has no bound.
struct Plain(Value);

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor).map(Self)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("no number"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Plain(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        // Of a repeated member the last one counts, as in JavaScript and Python.
        while let Some((name, Plain(value))) = members.next_entry::<String, Plain>()? {
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// Stands for a number that no double holds: a number too, and one that no field takes.
const NO_FIELDS_NUMBER: &str = "-0.5";

/// Rewrites a text that is JSON by its grammar: a lone half of a surrogate pair becomes U+FFFD, a number out of range becomes
/// another one, and what lies too deep becomes null. Whether all of it is still there.
fn mended(text: &str) -> (String, bool) {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut depth, mut is_whole) = (text, 0_usize, true);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' => rest.find(|c| !is_of_number(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        if matches!(first, '[' | '{') {
            depth += 1;
            if depth == DEPTH_MAX + 1 {
                is_whole = false;
                out.push_str("null");
            }
        }
        if depth <= DEPTH_MAX {
            match first {
                '"' => push_string(&mut out, token),
                '-' | '0'..='9' if serde_json::from_str::<f64>(token).is_err() => {
                    out.push_str(NO_FIELDS_NUMBER);
                }
                _ => out.push_str(token),
            }
        }
        if matches!(first, ']' | '}') {
            depth = depth.saturating_sub(1);
        }
    }
    (out, is_whole)
}

fn is_of_number(c: char) -> bool {
    matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')
}

/// Of the string that the text begins with, both quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = true; // the quote in front ends nothing
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

fn push_string(out: &mut String, token: &str) {
    let mut rest = token;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (code_unit(escape), escape.get(6..).and_then(code_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 2,
        };
        let (kept, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        out.push_str(kept);
        rest = after;
    }
    out.push_str(rest);
}

/// What `\uXXXX` at the beginning of a text stands for.
fn code_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::thread;

    fn value(text: &str) -> Value {
        Json::read(text.as_bytes()).expect(text).whole().expect(text).clone()
    }

    #[test]
    fn ordinary_bodies_are_read_as_ever() {
        for text in [
            "null",
            " [1, -1, 1.5, -0, 18446744073709551615, 18446744073709551616, 1e-400, true]",
            r#"{"a":"\ud83d\ude00 \\ud83d \u0041","b":{"a":[]},"a":"last"}"#,
            "\"\u{1f600}\"",
        ] {
            assert_eq!(value(text), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_a_replacement_character() {
        for (escaped, read) in [
            (r"Weather report \ud83d", "Weather report \u{fffd}"),
            (r"\ude00", "\u{fffd}"),
            (r"\uD83Dx", "\u{fffd}x"),
            (r"\ud83d\n\u00e9", "\u{fffd}\n\u{e9}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            ("\\ud83d\u{e9}\\\"\\\\", "\u{fffd}\u{e9}\"\\"),
            (r"\\ud83d \ud83d", "\\ud83d \u{fffd}"),
        ] {
            assert_eq!(value(&format!("[\"{escaped}\", 1]")), json!([read, 1]), "{escaped}");
            assert_eq!(value(&format!("{{\"{escaped}\": 1}}")), json!({ read: 1 }), "{escaped}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_one_that_no_field_takes() {
        let digits = "1".repeat(400);
        for number in ["1e400", "-1E+400", "1.5e309", &digits, &format!("-{digits}.5")] {
            let list = value(&format!("[{number},7]"));
            assert_eq!(list[1], 7, "{number}");
            let number = &list[0];
            assert!(number.is_number() && number.as_u64().is_none() && number.as_f64().unwrap() < 0.0);
        }
        assert_eq!(value("\"1e400\\ud800\""), json!("1e400\u{fffd}"), "no number");
    }

    #[test]
    fn what_is_too_deep_is_left_out_and_said() {
        let nested = |levels: usize, inner: &str| "[".repeat(levels) + inner + &"]".repeat(levels);
        assert!(Json::read(nested(127, "").as_bytes()).unwrap().whole().is_ok());
        assert!(Json::read(nested(127, "\"\\ud800\"").as_bytes()).unwrap().whole().is_ok());
        for deep in [
            nested(128, ""),
            nested(5_000, "{\"]\":\"[\\\"]\"}"),
            "{\"a\":".repeat(200) + "1" + &"}".repeat(200),
        ] {
            let from = "0x00000000000000000000000000000000000000aa";
            let body = format!(
                r#"{{"x":{deep},"paymentPayload":{{"network":"base","payload":{{"authorization":{{"from":"{from}"}}}}}}}}"#
            );
            let json = Json::read(body.as_bytes()).unwrap();
            let refusal = json.whole().unwrap_err();
            assert_eq!(refusal.code, Code::InvalidPayload);
            assert!(refusal.message.contains("127 levels"), "{}", refusal.message);
            assert_eq!((json.echo().network.as_str(), json.echo().payer), ("base", from.parse().ok()));
        }
    }

    #[test]
    fn what_is_not_json_stays_that() {
        for text in [
            "",
            "1e",
            "01e400",
            "1e400 1",
            "[1e400,]",
            "[\"\\ud800\"",
            "\"\\ud8\"",
            "\"\\ud800\n\"",
            "\"\\x41\\ud800\"",
            "{\"\\ud800\"}",
            "\u{feff}1e400",
        ] {
            assert!(Json::read(text.as_bytes()).is_none(), "{text}");
        }
        assert!(Json::read(b"\"\\ud800\xff\"").is_none(), "no UTF-8");
        assert!(Json::read("[".repeat(5_000).as_bytes()).is_none(), "open");
    }

    /// On the stack of a worker thread, in time that grows no faster than the body.
    #[test]
    fn the_worst_bodies_are_read_in_passing() {
        const BYTES: usize = 256 * 1024;
        let filled = |unit: &str| unit.repeat(BYTES / unit.len());
        let mut raw = "1".to_owned();
        for _ in 0..14 {
            let text = Value::String("[".repeat(120) + &raw + &"]".repeat(120)).to_string();
            raw = format!("{{\"$serde_json::private::RawValue\":{text}}}");
        }
        let bodies = [
            filled("["),
            filled("{\"\":"),
            "[".repeat(BYTES / 2) + &"]".repeat(BYTES / 2),
            format!("\"{}\"", filled("\\ud800")),
            format!("\"{}\"", filled("\\\\")),
            format!("[\"\\ud800\",{}]", filled("1")),
            format!("[{}1]", filled("1e999,")),
            format!("[1e400{}]", filled(" ")),
            format!("[{}\"\"]", filled("\"\\udc00\",")),
            raw.clone(),
            format!("[{raw},1e400]"),
        ];
        let worker = thread::Builder::new().stack_size(2 * 1024 * 1024);
        let reading = worker.spawn(move || bodies.map(|body| Json::read(body.as_bytes()).is_some())).unwrap();
        let read = reading.join().unwrap();
        assert_eq!(read, [false, false, true, true, true, true, true, true, true, true, true]);
    }
}
