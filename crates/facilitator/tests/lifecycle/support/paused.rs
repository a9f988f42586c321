//! A process that stands still.

use super::{DEADLINE, until};
use quittance_testkit::harness::QuittanceProcess;

/// A server that gets no processor until this value is dropped.
pub(crate) struct Paused(String);

impl Paused {
    /// Waits until it has stopped itself, at a fault point.
    pub(crate) async fn by_itself(server: &QuittanceProcess) -> Self {
        let pid = Self::pid(server);
        let stopped = || async {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let state = stat.rsplit_once(") ").unwrap().1;
            state.starts_with('T').then_some(())
        };
        until("a server that has stopped itself", DEADLINE, stopped).await;
        Self(pid)
    }

    pub(crate) fn new(server: &QuittanceProcess) -> Self {
        let paused = Self(Self::pid(server));
        paused.signal("STOP");
        paused
    }

    fn pid(server: &QuittanceProcess) -> String {
        // Its working directory is its own.
        let home = server.dir().canonicalize().unwrap();
        let pid = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .find(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == home));
        pid.expect("the server's process").file_name().into_string().unwrap()
    }

    fn signal(&self, name: &str) {
        let kill = ["-c", "kill -s \"$0\" \"$1\"", name, &self.0];
        assert!(std::process::Command::new("sh").args(kill).status().unwrap().success());
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal("CONT");
    }
}
