//! The command line itself.

use crate::support::cli::Cli;

#[tokio::test]
async fn help_goes_to_stdout() {
    let cli = Cli::new();
    for (args, words) in [
        (vec!["--help"], vec!["serve", "check", "demo"]),
        (vec!["-h"], vec!["serve"]),
        (vec!["help"], vec!["serve", "check", "demo"]),
        (vec!["help", "serve"], vec!["--config", "QUITTANCE_CONFIG"]),
        (vec!["serve", "--help"], vec!["--config", "QUITTANCE_CONFIG"]),
        (vec!["check", "--help"], vec!["--config"]),
        (vec!["demo", "--help"], vec!["--once"]),
    ] {
        let ended = cli.run(&args).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{args:?}");
        for word in words {
            assert!(ended.stdout.contains(word), "{args:?}: {}", ended.stdout);
        }
    }
}

#[tokio::test]
async fn the_version_names_a_commit() {
    for flag in ["--version", "-V"] {
        let ended = Cli::new().run(&[flag]).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
        let words: Vec<&str> = ended.stdout.split_whitespace().collect();
        let [name, version, commit] = words.as_slice() else { panic!("{}", ended.stdout) };
        assert_eq!((*name, *version), ("quittance", env!("CARGO_PKG_VERSION")));
        let commit = commit.trim_start_matches('(').trim_end_matches(')');
        let known = commit.len() >= 12 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(known || commit == "unknown", "{}", ended.stdout);
    }
}

#[tokio::test]
async fn what_is_no_command_is_2_and_says_so_on_stderr() {
    for args in [
        vec![],
        vec!["bogus"],
        vec!["--bogus"],
        vec!["serve", "--bogus"],
        vec!["serve", "bogus"],
        vec!["serve", "--config"],
        vec!["serve", "--config", "a", "--config", "b"],
        vec!["check", "--once"],
        vec!["demo", "--config", "x"],
        vec!["SERVE"],
    ] {
        let ended = Cli::new().run(&args).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?} {}", ended.stderr);
        assert!(
            ended.stderr.contains("Usage") || ended.stderr.contains("--help"),
            "{args:?} {}",
            ended.stderr
        );
    }
}
