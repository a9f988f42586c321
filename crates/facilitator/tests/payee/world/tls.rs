//! Certificates of an authority of the test's own, and TLS in front of a web server.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer},
};

/// Who vouches for names.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// TLS for these names in front of a plain server.
    pub(crate) async fn in_front_of(&self, plain: SocketAddr, names: &[&str]) -> Front {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Front::start(TlsAcceptor::from(Arc::new(config)), plain).await
    }
}

/// Listens with TLS; ends with the test's runtime.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) port: u16,
    asked_for: Arc<Mutex<Vec<Option<String>>>>,
}

impl Front {
    async fn start(acceptor: TlsAcceptor, plain: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = Self { port: listener.local_addr().unwrap().port(), asked_for: Arc::default() };
        let asked_for = front.asked_for.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, asked_for) = (acceptor.clone(), asked_for.clone());
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(stream).await.ok()?;
                    let name = outside.get_ref().1.server_name().map(str::to_owned);
                    asked_for.lock().unwrap().push(name);
                    let mut inside = TcpStream::connect(plain).await.ok()?;
                    copy_bidirectional(&mut outside, &mut inside).await.ok()
                });
            }
        });
        front
    }

    /// The names (SNI) that clients asked for and were served under, in order.
    pub(crate) fn asked_for(&self) -> Vec<Option<String>> {
        self.asked_for.lock().unwrap().clone()
    }
}
