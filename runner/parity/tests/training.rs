//! Two trainings, judged: clean ones pass, and every fault is seen and named.

mod synthetic;

use synthetic::{Fault, Synthetic};
use warpforge_parity::training::{Quantity, TrainingParity, TrainingSettings, judge};
use warpforge_parity::verdict::Verdict;

fn judged(made: &Synthetic) -> TrainingParity {
    let folder = tempfile::tempdir().unwrap();
    made.write(folder.path());
    judge(folder.path(), folder.path(), &TrainingSettings::default()).unwrap()
}

fn with(fault: Fault) -> TrainingParity {
    judged(&Synthetic { fault: Some(fault), ..Synthetic::default() })
}

#[test]
fn thirty_clean_runs_pass() {
    for seed in 0..30 {
        let found = judged(&Synthetic { seed, ..Synthetic::default() });
        assert_eq!(found.verdict, Verdict::Pass, "seed {seed}: {}", found.summary);
        assert!(found.first.is_none() && found.elements > 100_000);
    }
}

#[test]
fn every_fault_is_seen_and_its_quantity_named() {
    use Quantity as Q;
    use Verdict::{Fail, Inconclusive, Invalid};
    for fault in Fault::ALL {
        let (verdict, quantity, words): (Verdict, Option<Quantity>, &str) = match fault {
            Fault::Activation => (Fail, Some(Q::Activations), "intermediate_6"),
            Fault::GradientScale | Fault::GradientRow => {
                (Fail, Some(Q::Gradients), "layer.1.attention.self.query.weight")
            }
            Fault::KeyBias => (Fail, Some(Q::Gradients), "layer.0.attention.self.key.bias"),
            Fault::DroppedMicrobatch => (Fail, Some(Q::Gradients), ""),
            Fault::WrongBeta | Fault::NoBiasCorrection | Fault::DecayOnBias => {
                (Fail, Some(Q::Optimizer), "")
            }
            Fault::WrongEpsilon | Fault::NoUpdate => (Fail, Some(Q::Optimizer), ""),
            Fault::StaleSlot => (Fail, Some(Q::OptimizerState), "exp_avg"),
            Fault::StaleBuffer => (Fail, Some(Q::Buffers), "running_mean"),
            Fault::Counter => (Fail, Some(Q::Buffers), "num_batches_tracked"),
            Fault::FrozenMoves => (Fail, Some(Q::Weights), "token_type"),
            Fault::NanGradient => (Fail, Some(Q::Gradients), "NaN"),
            Fault::NanWeight => (Fail, Some(Q::Weights), "NaN"),
            Fault::LossShift => (Fail, Some(Q::Loss), "loss at step 0"),
            Fault::LearningRate => (Fail, Some(Q::Settings), "learning rate at step 30"),
            Fault::MissingStep => (Fail, None, "no teacher-forced step 90"),
            Fault::MissingGradientFile => (Fail, Some(Q::Gradients), "gradients/step-30"),
            Fault::MissingTensor => (Fail, Some(Q::Gradients), "qa_outputs.bias"),
            Fault::ExtraTensor => (Fail, Some(Q::Gradients), "qa_outputs.extra"),
            Fault::OtherBatch | Fault::CurveBias | Fault::CurveNan => {
                (Fail, Some(Q::LossCurve), "spread")
            }
            Fault::Metric => (Fail, Some(Q::Metrics), "f1"),
            Fault::MissingMetric => (Fail, Some(Q::Metrics), "exact_match"),
            Fault::Expectation => (Inconclusive, Some(Q::Metrics), "at least 85"),
            Fault::Unstable | Fault::NoisyLoss => (Invalid, None, "unstable"),
        };
        let found = with(fault);
        let text = serde_json::to_string(&found).unwrap();
        let back: Result<TrainingParity, _> = serde_json::from_str(&text);
        assert!(back.is_ok_and(|back| back.reasons.len() == found.reasons.len()), "{fault:?}");
        let said = format!("{fault:?}: {}: {}", found.verdict, found.summary);
        assert_eq!(found.verdict, verdict, "{said}");
        assert!(found.summary.contains(words), "{said}");
        if let Some(quantity) = quantity {
            assert_eq!(found.first.as_ref().map(|first| first.quantity), Some(quantity), "{said}");
            let row = found.quantities.iter().find(|row| row.quantity == quantity).unwrap();
            assert_eq!(row.verdict, verdict, "{said}");
        }
    }
}
