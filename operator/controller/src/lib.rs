//! The operator. Its middle is pure: what is seen of a run ([`observed`]), its request merged with
//! its profile ([`resolve`]), what is to be done next ([`plan`]), the objects that are created
//! ([`children`]), and what is told about a change ([`events`]). Around it is what talks to a
//! cluster: watches that keep a [`cache`], a [`queue`] of runs to look at, [`reconcile`] that plans
//! and [`act`]s, and [`operator`], which has one of several replicas do so.

pub mod act;
pub mod cache;
pub mod children;
pub mod election;
pub mod events;
pub mod metrics;
pub mod observed;
pub mod operator;
pub mod outcome;
pub mod plan;
pub mod progress;
pub mod queue;
pub mod reconcile;
pub mod resolve;
pub mod serve;
pub mod tell;
