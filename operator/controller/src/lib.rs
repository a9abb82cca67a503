//! The operator's pure middle: what is seen of a run ([`observed`]), its request merged with its
//! profile ([`resolve`]), what is to be done next ([`plan`]), the objects that are created
//! ([`children`]), and what is told about a change ([`events`]). Nothing here talks to a cluster;
//! whoever does fetches what is seen and applies what the plan says.

pub mod children;
pub mod events;
pub mod observed;
pub mod outcome;
pub mod plan;
pub mod resolve;
