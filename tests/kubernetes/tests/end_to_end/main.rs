//! The product on a real cluster: the chart is installed, runs are applied, pods of the real images
//! compute them, results lie in a real object store, and metrics in a real Prometheus.

mod faults;
mod pictures;
mod reach;
mod security;
mod story;
mod world;

use std::process::ExitCode;

use libtest_mimic::{Failed, Trial};
use warpforge_test_kubernetes::Error;

use world::{World, world};

fn trial<F>(name: &str, test: impl Fn(&'static World) -> F + Send + Sync + 'static) -> Trial
where
    F: Future<Output = Result<(), Error>>,
{
    Trial::test(name, move || {
        let world = world();
        world.runtime.block_on(test(world)).map_err(|error| Failed::from(world.told(&error)))
    })
}

fn main() -> ExitCode {
    warpforge_test_kubernetes::run(vec![
        trial("a_demo_passes_and_a_second_run_reuses_its_golden", story::demo),
        trial("a_program_that_computes_something_else_fails", story::mutated),
        trial("golden_runs_on_two_workers", story::two_ranks),
        trial("a_suite_measures_two_nodes", story::suite),
        trial("a_schedules_job_ends_with_the_verdict", story::schedule),
        trial("helm_tests_the_release", story::helm_test),
        trial("a_run_gets_nothing_that_its_profile_does_not_allow", security::requests),
        trial("a_runner_has_no_token_and_no_rights", security::runner),
        trial("pods_reach_what_their_policy_lets_them", reach::reach),
        trial("one_namespace_does_not_use_anothers_golden", security::goldens),
        trial("a_run_cannot_read_what_another_namespace_stored", security::artifacts),
        trial("a_run_is_followed_while_it_runs", pictures::live),
        trial("every_panel_of_the_dashboard_shows_data", pictures::panels),
        trial("a_deleted_run_takes_its_pods_along", faults::deleted),
        trial("killed_operators_lose_and_repeat_nothing", faults::operators_killed),
        trial("every_fault_ends_in_a_reason", faults::all),
        trial("the_release_goes_and_runs_stay", story::uninstall),
    ])
}
