//! `warpforge-operator submit`.

use std::process::Output;

use tokio::process::Command;
use warpforge_operator_api::Verdict;
use warpforge_operator_api::status::Phase;

use super::OPERATOR;
use super::scene::{Scene, scene, until};

fn command(scene: &Scene, arguments: &[&str]) -> Command {
    let mut command = Command::new(OPERATOR);
    command.args(["submit", "--namespace", &scene.namespace, "--profile", &scene.namespace]);
    command.args(arguments).env("KUBECONFIG", &scene.kubeconfig).kill_on_drop(true);
    command
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn submit_ends_with_the_verdicts_code() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let _operator = scene.operator();
        for verdict in Verdict::ALL {
            let name = format!("nightly-{}", verdict.exit_code());
            let arguments = ["--workload", "bert-squad", "--preset", "tiny", "--wait"];
            let mut submit = command(&scene, &arguments);
            submit.env("WARPFORGE_JOB_NAME", &name);
            let output = submit.output();
            let play = async {
                let run = until("the run", async || scene.runs().get_opt(&name).await.unwrap());
                scene.plays(&run.await, 1, verdict).await;
            };
            let (output, ()) = tokio::join!(output, play);
            let output = output.unwrap();
            let text = text(&output);
            assert_eq!(output.status.code(), Some(verdict.exit_code()), "{text}");
            assert!(text.contains(&format!("Correctness {verdict}")), "{text}");
        }
    });
}

#[test]
fn a_second_try_follows_the_run_of_the_first() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let _operator = scene.operator();
        let arguments = ["--workload", "bert-squad", "--set", "batch=4", "--name", "weekly"];
        let first = command(&scene, &arguments).output().await.unwrap();
        assert_eq!(first.status.code(), Some(0), "{}", text(&first));
        let run = scene.runs().get("weekly").await.unwrap();
        let again = [&arguments[..], &["--wait"]].concat();
        let mut second = command(&scene, &again);
        let (output, ()) =
            tokio::join!(second.output(), scene.plays(&run, 1, Verdict::Inconclusive));
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        // Another request of that name is not the same run.
        let other = ["--workload", "llama-qlora", "--name", "weekly", "--wait"];
        let output = command(&scene, &other).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    });
}

#[test]
fn a_deleted_run_and_a_refused_one_are_told_apart() {
    scene(async |scene| {
        scene.profile(None, |_| ()).await;
        let _operator = scene.operator();
        let mut gone = command(&scene, &["--workload", "bert-squad", "--name", "gone", "--wait"]);
        let delete = async {
            until("the run", async || scene.runs().get_opt("gone").await.unwrap()).await;
            scene.until_phase("gone", Phase::Starting).await;
            scene.delete("gone").await;
        };
        let (output, ()) = tokio::join!(gone.output(), delete);
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert!(text(&output).contains("deleted before it ended"), "{}", text(&output));
        let bad = ["--workload", "not a word", "--name", "bad"];
        let output = command(&scene, &bad).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("spec.workload.name"), "{}", text(&output));
    });
}
