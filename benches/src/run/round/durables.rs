//! Durable appends, one producer alone or many, beside the ring's synced writes.

use std::time::Duration;

use super::{Outcome, Runner, State, uninterrupted};
use crate::ceiling::{BLOCK_BYTES, CeilingError, Layout, Many, Method};
use crate::pairs::pair;
use crate::phases::durable;
use crate::plan::Plan;
use crate::run::MANY_TIME;
use crate::run_error::RunError;
use crate::subject::Opener;

/// Longest that the lone producer's durable appends of a round go on, and the synced writes beside
/// them.
const DURABLE_BUDGET: Duration = Duration::from_secs(1);

impl<O: Opener> Runner<'_, O> {
    pub(super) fn durable(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let samples = self.settings.durable_samples;
        let stage = self.stage(state.number, &self.small);
        let number = state.number;
        let engine = self.open(state)?;
        let (synced, durable) = pair(
            self.place,
            number,
            || uninterrupted(self.ceiling.synced_once(samples, DURABLE_BUDGET)),
            || {
                self.measured(Some(engine), |begin| {
                    durable::run(engine, stage, samples, DURABLE_BUDGET, begin)
                })
            },
        )?;
        let ((moved, sent), used) = durable;
        durable::check(engine, stage, 0, &sent)?;
        let ceiling = synced.as_ref().map(|synced| synced.best().1.percentile_us(50.0));
        self.add(outcome, "durable", (moved, used), ceiling);
        outcome.synced.merge(&synced.unwrap_or_default());
        Ok(())
    }

    pub(super) fn durable_shared(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let plan = Plan::new(self.settings.durable_producers, 1, 1).endless();
        self.durable_many(state, outcome, "durable_shared", 1, &plan, (1, &[Layout::Regions]))
    }

    pub(super) fn durable_spread(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let producers = self.settings.durable_producers;
        let plan = Plan::new(producers, u32::from(producers), 1).endless();
        let ring = (usize::from(producers), &[Layout::Files, Layout::Regions][..]);
        let first = self.settings.first_spread_partition();
        self.durable_many(state, outcome, "durable_spread", first, &plan, ring)
    }

    /// Many producers on partitions `first` and up, beside the better of the ring's layouts.
    fn durable_many(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
        name: &str,
        first: u32,
        plan: &Plan,
        (depth, layouts): (usize, &[Layout]),
    ) -> Result<(), RunError> {
        let stage = self.stage(state.number, &self.small);
        let number = state.number;
        let engine = self.open(state)?;
        let time = MANY_TIME / layouts.len() as u32;
        let ring = || {
            let rates = layouts.iter().map(|layout| {
                let (layout, method) = (*layout, Method::Dsync);
                let many = Many { layout, method, block: BLOCK_BYTES, depth };
                Ok(self.ceiling.synced_many(many, time)?.per_s)
            });
            let rates = rates.collect::<Result<Vec<f64>, CeilingError>>();
            uninterrupted(rates.map(|rates| rates.into_iter().fold(0.0, f64::max)))
        };
        let (ceiling, ((moved, sent), used)) = pair(self.place, number, ring, || {
            self.measured(Some(engine), |begin| {
                durable::many(engine, stage, first, plan, MANY_TIME, begin)
            })
        })?;
        durable::check(engine, stage, first, &sent)?;
        self.add(outcome, name, (moved, used), ceiling);
        Ok(())
    }
}
