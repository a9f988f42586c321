//! Registration files from the web as in production: by name, from public addresses, over TLS.

use crate::{
    agents::{file_of, set_uri},
    files::{Files, Page},
    stage::{RESOURCE, Stage, said},
    world::{World, tls::Authority},
};
use serde_json::Value;

/// The answer of a check after the agent's file has moved to `uri`.
async fn moved(stage: &Stage, agent: &crate::stage::Agent, uri: &str) -> Value {
    set_uri(&stage.chain, agent.id, uri).await;
    stage.check(agent.requirement(agent.wallet, Value::Null)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_fetched_over_tls_under_the_rules_of_production() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (web, plain) = (Files::start().await, Files::start().await);
    let good = authority.in_front_of(web.address, &["files.example", "cdn.example"]).await;
    let misnamed = authority.in_front_of(web.address, &["somebody-else.example"]).await;
    let unknown = stranger.in_front_of(web.address, &["unknown.example"]).await;
    let world = World::new()
        .host("files.example", "93.184.216.34")
        .host("cdn.example", "93.184.216.35")
        .host("misnamed.example", "93.184.216.36")
        .host("unknown.example", "93.184.216.37")
        .host("inside.example", "10.0.0.7")
        .route("93.184.216.34:443", good.port)
        .route("93.184.216.34:80", plain.address.port())
        .route("93.184.216.35:443", good.port)
        .route("93.184.216.36:443", misnamed.port)
        .route("93.184.216.37:443", unknown.port)
        .route("10.0.0.7:443", good.port);
    let stage = Stage::start_with("report", |config| world.trusting(config, &authority)).await;
    let agent = stage.agent_with("").await;
    web.put("/agent.json", Page::Json(file_of(&[RESOURCE])));
    plain.put("/agent.json", Page::Json(file_of(&[RESOURCE])));

    // To the address of the name, and by the name: in the handshake, in the certificate and in the request.
    let answer = moved(&stage, &agent, "https://files.example/agent.json").await;
    assert_eq!(
        (said(&answer), &answer["file"]["source"]),
        (("verified-wallet", ""), &"https".into()),
        "{answer}"
    );
    web.put("/elsewhere", Page::Redirect("https://cdn.example/agent.json".into()));
    let answer = moved(&stage, &agent, "https://files.example/elsewhere").await;
    assert_eq!(said(&answer), ("verified-wallet", ""), "{answer}");
    let names = ["files.example", "files.example", "cdn.example"];
    assert_eq!(good.asked_for(), names.map(|name| Some(name.to_owned())));
    assert_eq!(web.hosts(), names);

    // Whoever cannot show a certificate for its name is not even asked.
    web.put("/plain", Page::Redirect("http://files.example/agent.json".into()));
    web.put("/inside", Page::Redirect("https://inside.example/agent.json".into()));
    web.put("/port", Page::Redirect("https://cdn.example:8443/agent.json".into()));
    let hits = web.hits("/agent.json");
    for (uri, reason) in [
        ("https://misnamed.example/agent.json", "the host's certificate is not trusted"),
        ("https://unknown.example/agent.json", "the host's certificate is not trusted"),
        ("https://nowhere.example/agent.json", "no connection to the host could be made"),
        ("https://inside.example/agent.json", "the host's address is not a public one"),
        ("http://files.example/agent.json", "the tokenURI is http, only https is fetched"),
        ("http://files.example:443/agent.json", "the tokenURI is http, only https is fetched"),
        ("https://files.example:80/agent.json", "only port 443 is fetched from"),
        ("https://files.example/plain", "only https is fetched"),
        ("https://files.example/inside", "the host's address is not a public one"),
        ("https://files.example/port", "only port 443 is fetched from"),
    ] {
        let answer = moved(&stage, &agent, uri).await;
        assert_eq!(said(&answer), ("not-read", "file"), "{uri}: {answer}");
        assert_eq!(answer["reason"], reason, "{uri}");
    }
    assert_eq!((web.hits("/agent.json"), plain.all_hits()), (hits, 0));
    assert!(misnamed.asked_for().is_empty() && unknown.asked_for().is_empty());
    world.no_proxy_was_used();
}
