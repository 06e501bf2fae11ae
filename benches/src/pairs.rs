//! A pair: the ceiling's phase and the engine's, neighbours in time.
//!
//! Who goes first changes from round to round, so that neither always finds the device rested, and
//! the file system is flushed before each. A ratio of two neighbours leaves out what drifts.

use crate::place::{Place, PlaceError};

/// Runs both, the ceiling first in even rounds, each on a flushed file system.
pub(crate) fn pair<C, E, F: From<PlaceError>>(
    place: &Place,
    round: u32,
    ceiling: impl FnOnce() -> Result<C, F>,
    engine: impl FnOnce() -> Result<E, F>,
) -> Result<(C, E), F> {
    place.settle()?;
    if round.is_multiple_of(2) {
        let measured = ceiling()?;
        place.settle()?;
        return Ok((measured, engine()?));
    }
    let measured = engine()?;
    place.settle()?;
    Ok((ceiling()?, measured))
}

/// The ceiling before the engine's phase and after it, each on a flushed file system.
pub(crate) fn around<C, E, F: From<PlaceError>>(
    place: &Place,
    ceiling: impl Fn() -> Result<C, F>,
    engine: impl FnOnce() -> Result<E, F>,
) -> Result<([C; 2], E), F> {
    place.settle()?;
    let before = ceiling()?;
    place.settle()?;
    let measured = engine()?;
    place.settle()?;
    Ok(([before, ceiling()?], measured))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::place::tests::test_dir;

    #[test]
    fn who_goes_first_changes_from_round_to_round() {
        let place = test_dir("pairs");
        for (round, order) in [(0, ["ceiling", "engine"]), (1, ["engine", "ceiling"])] {
            let begun = RefCell::new(Vec::new());
            let begin = |who: &'static str| {
                begun.borrow_mut().push(who);
                Ok::<_, PlaceError>(who)
            };
            let both = pair(&place, round, || begin("ceiling"), || begin("engine")).unwrap();
            assert_eq!(both, ("ceiling", "engine"));
            assert_eq!(begun.into_inner(), order);
        }
    }

    #[test]
    fn the_ceiling_can_be_on_both_sides() {
        let (place, begun) = (test_dir("pairs-around"), RefCell::new(Vec::new()));
        let begin = |who: &'static str| {
            begun.borrow_mut().push(who);
            Ok::<_, PlaceError>(begun.borrow().len())
        };
        let all = around(&place, || begin("ceiling"), || begin("engine")).unwrap();
        assert_eq!(all, ([1, 3], 2));
        assert_eq!(begun.into_inner(), ["ceiling", "engine", "ceiling"]);
    }
}
