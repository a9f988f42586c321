//! The registration file, as far as the check looks at it (ERC-8004, ERC-8478 §6, spec/payee.md §1.4).
//!
//! Half of the files in the wild deviate from the standard, so members of unexpected shape are skipped: they list
//! nothing. Limits are another matter: behind a limit the file was not looked at, and "not listed" would be a guess.

use super::{FileError, Identity, Origin, delegation::same_account, json};
use serde_json::{Map, Value};

const SERVICES_MAX: usize = 256;
const ENDPOINT_BYTES_MAX: usize = 2_048;
const PAYEES_PER_SERVICE_MAX: usize = 64;

/// What a registration file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// `services`, or `endpoints` as files before 2026 call the list. Never both: a union would bring back servers that
    /// the agent has dropped.
    pub services: Vec<Service>,
    /// `registrations`, as far as they name identities; `None` when the file has no such list.
    pub registrations: Option<Vec<Identity>>,
    /// `active`.
    pub active: Option<bool>,
}

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Whether it is called `x402`.
    pub is_x402: bool,
    /// Origin of its endpoint; `None` when the endpoint is no URL, as names, DIDs and mail addresses are not.
    pub origin: Option<Origin>,
    /// `payees`; `None` when the service has no such list.
    pub payees: Option<Vec<DeclaredPayee>>,
}

/// One entry of `payees`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredPayee {
    /// CAIP-2 network.
    pub network: String,
    /// Payee, as written.
    pub pay_to: String,
}

impl Registration {
    /// From the bytes of a file.
    pub fn parse(file: &[u8]) -> Result<Self, FileError> {
        Self::from_object(&json::object(file)?)
    }

    /// From the file's object.
    pub fn from_object(file: &Map<String, Value>) -> Result<Self, FileError> {
        let list = |name: &str| file.get(name).and_then(Value::as_array).filter(|list| !list.is_empty());
        let services = list("services").or_else(|| list("endpoints")).map(Vec::as_slice).unwrap_or_default();
        if services.len() > SERVICES_MAX {
            return Err(FileError::TooManyServices);
        }
        Ok(Self {
            services: services.iter().map(Service::read).collect::<Result<_, _>>()?,
            registrations: file
                .get("registrations")
                .and_then(Value::as_array)
                .map(|list| list.iter().filter_map(Identity::from_back_reference).collect()),
            active: file.get("active").and_then(Value::as_bool),
        })
    }

    /// Whether an endpoint has this origin.
    pub fn lists(&self, origin: &Origin) -> bool {
        self.services.iter().any(|service| service.origin.as_ref() == Some(origin))
    }

    /// Whether a list of payees of an x402 service has this one; `None` when there is no such list.
    pub fn declares(&self, network: &str, pay_to: &str) -> Option<bool> {
        let mut lists = self
            .services
            .iter()
            .filter(|service| service.is_x402)
            .filter_map(|service| service.payees.as_ref())
            .peekable();
        lists.peek()?;
        Some(lists.flatten().any(|payee| payee.network == network && same_account(&payee.pay_to, pay_to)))
    }

    /// Whether the list of registrations has this one; `None` when there is no such list.
    pub fn refers_to(&self, identity: &Identity) -> Option<bool> {
        self.registrations.as_ref().map(|list| list.contains(identity))
    }
}

impl Service {
    fn read(entry: &Value) -> Result<Self, FileError> {
        // Some files write `type` and `url`.
        let text =
            |name: &str, other: &str| entry.get(name).or_else(|| entry.get(other)).and_then(Value::as_str);
        let endpoint = text("endpoint", "url").unwrap_or_default();
        if endpoint.len() > ENDPOINT_BYTES_MAX {
            return Err(FileError::EndpointTooLong);
        }
        let payees = entry.get("payees").and_then(Value::as_array);
        if payees.is_some_and(|list| list.len() > PAYEES_PER_SERVICE_MAX) {
            return Err(FileError::TooManyPayees);
        }
        Ok(Self {
            is_x402: text("name", "type").is_some_and(|name| name.eq_ignore_ascii_case("x402")),
            origin: Origin::of_url(endpoint),
            payees: payees.map(|list| list.iter().filter_map(DeclaredPayee::read).collect()),
        })
    }
}

impl DeclaredPayee {
    fn read(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry.get(name)?.as_str().map(String::from);
        Some(Self { network: text("network")?, pay_to: text("payTo")? })
    }
}
