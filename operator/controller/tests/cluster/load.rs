//! Many runs at once.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use warpforge_operator_api::status::{ConditionType, Phase};
use warpforge_tests::campaign::rounds;

use super::scene::{Operator, Scene, scene, until};

const SLOTS: usize = 10;

#[test]
fn many_runs_at_once_all_get_their_place_and_then_cost_nothing() {
    let count = rounds(100, 2000);
    scene(async |scene| {
        scene.profile(Some(SLOTS as i32), |_| ()).await;
        let names = stream::iter(0..count).map(async |index| {
            scene.submit(&format!("run-{index}"), scene.spec()).await;
        });
        names.buffer_unordered(16).count().await;
        let operator = scene.operator_with(&["--lease-seconds", "15"]);
        let start = Instant::now();
        // The operator counts for us: lists of so many would be most of the API server's work.
        until("every run to have its place", async || {
            let metrics = operator.metrics().await;
            let count_of = |phase: &str| {
                let start = format!("warpforge_runs{{phase=\"{phase}\"}} ");
                let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
                line.and_then(|count| count.parse::<usize>().ok()).unwrap_or_default()
            };
            (count_of("Queued") + count_of("Starting") == count).then_some(())
        })
        .await;
        let took = start.elapsed();
        let runs = scene.runs().list(&ListParams::default()).await.unwrap().items;
        let admitted = runs.iter().filter(|run| {
            run.status.as_ref().is_some_and(|status| status.is(ConditionType::Admitted))
        });
        assert_eq!(admitted.count(), SLOTS.min(count));

        // Those that wait are left alone.
        let waiting = runs
            .iter()
            .find(|run| run.status.as_ref().is_some_and(|status| status.phase == Phase::Queued));
        let waiting = waiting.unwrap().name_any();
        // Events are sent for a while after the work.
        let mut busy = processor_time(&operator);
        until("rest", async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let before = std::mem::replace(&mut busy, processor_time(&operator));
            (busy.saturating_sub(before) <= Duration::from_millis(20)).then_some(())
        })
        .await;
        let version = scene.runs().get(&waiting).await.unwrap().resource_version();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let busy = processor_time(&operator).saturating_sub(busy);
        assert_eq!(scene.runs().get(&waiting).await.unwrap().resource_version(), version);
        let resident = resident_mebibytes(operator.child.id());
        let words = format!(
            "{count} runs placed in {took:.1?}; {resident} MiB resident; {:.1} % of a core at rest",
            busy.as_secs_f64() * 20.0
        );
        let others = plain_jobs(&scene, count).await;
        let line = format!("{words}\n{others}\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        assert!(resident < 100, "{words}");
    });
}

/// The measure beside it: what Kubernetes' own controllers need for as many plain Jobs.
async fn plain_jobs(scene: &Scene, count: usize) -> String {
    let manager = controller_manager(&scene.kubeconfig);
    let (before, busy) = (resident_mebibytes(manager), processor_time_of(manager));
    let start = Instant::now();
    let jobs: Api<Job> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let made = stream::iter(0..count).map(async |index| {
        let container = json!({ "name": "a", "image": "none" });
        let pod = json!({ "spec": { "restartPolicy": "Never", "containers": [container] } });
        let job = json!({ "metadata": { "name": format!("plain-{index}") },
                          "spec": { "template": pod } });
        let job = serde_json::from_value(job).unwrap();
        jobs.create(&PostParams::default(), &job).await.unwrap();
    });
    made.buffer_unordered(16).count().await;
    let last = format!("plain-{}", count - 1);
    until("every plain Job to have its pod", async || {
        let status = jobs.get(&last).await.unwrap().status;
        status.filter(|status| status.active == Some(1)).map(drop)
    })
    .await;
    let took = start.elapsed();
    let busy = processor_time_of(manager).saturating_sub(busy);
    let resident = resident_mebibytes(manager);
    format!(
        "kube-controller-manager: {count} plain Jobs in {took:.1?}; {resident} MiB resident, \
         {before} before; {busy:.1?} of processor time"
    )
}

/// The process that was started for this test's API server.
fn controller_manager(kubeconfig: &Path) -> u32 {
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let found = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        let own = words.get(1)? == b"controller-manager" && words.contains(&flag.as_bytes());
        own.then(|| entry.file_name().to_string_lossy().parse().ok()).flatten()
    });
    found.expect("the controller manager runs")
}

fn resident_mebibytes(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<u64>().unwrap() / 1024
}

fn processor_time(operator: &Operator) -> Duration {
    processor_time_of(operator.child.id())
}

fn processor_time_of(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = text.rsplit_once(')').unwrap().1;
    let fields: Vec<_> = after_name.split_whitespace().collect();
    // User and system time, in hundredths of a second.
    let ticks: u64 = [11, 12].iter().map(|index| fields[*index].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
