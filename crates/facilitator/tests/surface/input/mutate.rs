//! One field, seven ways to be wrong.

use crate::support::offline::{Expect, Offline, payment};
use quittance_testkit::X402Version;
use serde_json::{Value, json};

/// What stands in a field instead of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    Nothing,
    Null,
    Number,
    Bool,
    Array,
    Object,
    EmptyString,
}

impl Instead {
    const ALL: [Self; 7] =
        [Self::Nothing, Self::Null, Self::Number, Self::Bool, Self::Array, Self::Object, Self::EmptyString];

    fn value(self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Null => Some(Value::Null),
            Self::Number => Some(json!(7)),
            Self::Bool => Some(json!(true)),
            Self::Array => Some(json!([])),
            Self::Object => Some(json!({})),
            Self::EmptyString => Some(json!("")),
        }
    }
}

/// A field, the answer to everything wrong in it, and what is answered differently.
pub(crate) struct Field {
    pub(crate) pointer: &'static str,
    pub(crate) otherwise: Expect,
    pub(crate) except: &'static [(Instead, Expect)],
}

/// Every field, every way.
pub(crate) async fn every_field(version: X402Version, fields: &[Field]) {
    let bench = Offline::start().await;
    bench.expect(payment(version).body(), Expect::Asked, "unchanged").await;
    for field in fields {
        for instead in Instead::ALL {
            let body = payment(version);
            let body = match instead.value() {
                Some(value) => body.with_value(field.pointer, value),
                None if body.body().pointer(field.pointer).is_some() => body.without(field.pointer),
                None => body,
            };
            let special = field.except.iter().find(|(except, _)| *except == instead);
            let expect = special.map_or(field.otherwise, |(_, expect)| *expect);
            bench.expect(body.body(), expect, &format!("{} is {instead:?}", field.pointer)).await;
        }
    }
    bench.nothing_reserved().await;
}
