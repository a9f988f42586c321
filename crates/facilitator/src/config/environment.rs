//! Names in the environment that are almost settings: passed over in silence, they would leave a default where somebody thinks
//! that something else is set.

use super::ConfigError;

/// In front of every setting's name.
pub(super) const PREFIX: &str = "QUITTANCE_";
const SECTIONS: [&str; 6] = ["SERVER", "STORE", "REPLAY", "POLICY", "SETTLE", "PAYEE"];
const NETWORKS: &str = "NETWORKS";
/// Behind the name of a service "quittance-server", Kubernetes tells every pod where that service is.
const SERVICE_LINKS: [&str; 3] = ["PORT", "PORT_", "SERVICE_"];

/// Refuses a name that begins like a setting and is none.
pub(super) fn check(name: &str) -> Result<(), ConfigError> {
    let upper = name.to_ascii_uppercase();
    let Some(rest) = upper.strip_prefix(PREFIX) else { return Ok(()) };
    let section = SECTIONS.into_iter().chain([NETWORKS]).find_map(|section| {
        let behind = rest.strip_prefix(section)?;
        (behind.is_empty() || behind.starts_with('_')).then_some((section, behind))
    });
    let reason = match section {
        None => return Ok(()),
        Some((NETWORKS, _)) => "networks are given in the file, as [[networks]]".to_owned(),
        Some((section, "")) => format!("names a section and no key: write {PREFIX}{section}__KEY"),
        Some((_, behind)) if behind.starts_with("__") => return Ok(()),
        Some((section, behind)) => {
            let key = behind.trim_start_matches('_');
            let [port, ports, service] = SERVICE_LINKS;
            if key == port || key.starts_with(ports) || key.starts_with(service) {
                return Ok(());
            }
            format!("two underscores stand between section and key: write {PREFIX}{section}__{key}")
        }
    };
    Err(ConfigError::value(name, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_almost_settings_are_refused() {
        for (name, written) in [
            ("QUITTANCE_SERVER_LISTEN", "QUITTANCE_SERVER__LISTEN"),
            ("quittance_server_listen", "QUITTANCE_SERVER__LISTEN"),
            ("QUITTANCE_SERVER", "QUITTANCE_SERVER__KEY"),
            ("QUITTANCE_SERVER_", "QUITTANCE_SERVER__"),
            ("QUITTANCE_SETTLE_WAIT_SECONDS", "QUITTANCE_SETTLE__WAIT_SECONDS"),
            ("QUITTANCE_PAYEE_MODE", "QUITTANCE_PAYEE__MODE"),
            ("QUITTANCE_NETWORKS", "[[networks]]"),
            ("QUITTANCE_NETWORKS_0_ID", "[[networks]]"),
            ("QUITTANCE_NETWORKS__0__CONFIRMATIONS", "[[networks]]"),
        ] {
            let refusal = check(name).unwrap_err().to_string();
            assert!(refusal.contains(name) && refusal.contains(written), "{refusal}");
        }
    }

    #[test]
    fn what_tools_and_clusters_set_is_not_ours() {
        for name in [
            "QUITTANCE",
            "QUITTANCE_",
            "QUITTANCE_CONFIG",
            "QUITTANCE_FAULT_POINT",
            "QUITTANCE_PG_BIN",
            "QUITTANCE_SERVERS",
            "QUITTANCE_SERVER__LISTEN",
            "QUITTANCE_SERVER_PORT",
            "QUITTANCE_SERVER_PORT_4021_TCP_ADDR",
            "QUITTANCE_SERVER_SERVICE_HOST",
            "QUITTANCE_SERVICE_PORT",
            "SERVER_LISTEN",
        ] {
            assert!(check(name).is_ok(), "{name}");
        }
    }
}
