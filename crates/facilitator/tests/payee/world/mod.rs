//! The world around a server: names, addresses and the time of day. With it the server can be run under the very rules it has
//! in production, where files come from public addresses on port 443 only, and no test reaches out of its machine.

pub(crate) mod tls;

use quittance_testkit::harness::ConfigBuilder;
use std::{io::ErrorKind, net::TcpListener, path::PathBuf, process::Command};
use tempfile::TempDir;
use tls::Authority;

/// What a server is to see.
pub(crate) struct World {
    dir: TempDir,
    hosts: Vec<String>,
    routes: Vec<String>,
    clock: Option<u64>,
    /// What the environment calls a proxy.
    proxy: TcpListener,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        proxy.set_nonblocking(true).unwrap();
        Self { dir, hosts: Vec::new(), routes: Vec::new(), clock: None, proxy }
    }

    /// A host name with its address.
    pub(crate) fn host(mut self, name: &str, address: &str) -> Self {
        self.hosts.push(format!("{name}={address}"));
        self
    }

    /// Who answers at an address of the world.
    pub(crate) fn route(mut self, address: &str, local_port: u16) -> Self {
        self.routes.push(format!("{address}={local_port}"));
        self
    }

    /// The time of day, which stands still.
    pub(crate) fn clock(mut self, unix_seconds: u64) -> Self {
        self.clock = Some(unix_seconds);
        self
    }

    /// Lets so many seconds pass at once, counted from the start, for all that is kept or waited for.
    pub(crate) fn skip(&self, seconds: u64) {
        self.tell(&seconds.to_string());
    }

    /// Stops time for all that is kept or waited for, so many milliseconds after the first stop. Who waits for the time
    /// sees it when something else happens.
    pub(crate) fn stop(&self, ms: u64) {
        self.tell(&format!("={ms}"));
    }

    fn tell(&self, time: &str) {
        let written = self.dir.path().join("skip.new");
        std::fs::write(&written, time).unwrap();
        std::fs::rename(written, self.skip_file()).unwrap();
    }

    /// Nobody has asked the proxy that the environment names.
    pub(crate) fn no_proxy_was_used(&self) {
        assert_eq!(self.proxy.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    /// Puts a server into this world, in which everybody trusts this authority.
    pub(crate) fn trusting(&self, config: ConfigBuilder, trusted: &Authority) -> ConfigBuilder {
        let authority = self.dir.path().join("authority.pem");
        std::fs::write(&authority, &trusted.pem).unwrap();
        self.around(config).env("SSL_CERT_FILE", authority.display().to_string())
    }

    /// Puts a server into this world, which has to live as long as the server.
    pub(crate) fn around(&self, config: ConfigBuilder) -> ConfigBuilder {
        let config = config
            .env("LD_PRELOAD", self.library().display().to_string())
            .env("WORLD_HOSTS", self.hosts.join(","))
            .env("WORLD_ROUTES", self.routes.join(","))
            .env("WORLD_SKIP", self.skip_file().display().to_string());
        let proxy = format!("http://{}", self.proxy.local_addr().unwrap());
        let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let config = names.iter().fold(config, |config, name| config.env(name, &proxy));
        let config = ["NO_PROXY", "no_proxy"].iter().fold(config, |config, name| config.env(name, ""));
        match self.clock {
            Some(seconds) => config.env("WORLD_CLOCK", seconds.to_string()),
            None => config,
        }
    }

    fn skip_file(&self) -> PathBuf {
        self.dir.path().join("skip")
    }

    fn library(&self) -> PathBuf {
        let (source, library) = (self.dir.path().join("world.c"), self.dir.path().join("world.so"));
        std::fs::write(&source, include_str!("world.c")).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl");
        let done = compiler.output().expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        library
    }
}
