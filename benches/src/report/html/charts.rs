//! The charts of a page, from the JSON of a run. A chart without data is left out.

use std::fmt::Write;

use serde_json::Value;

use super::markup::{escape, figure, number, text};
use super::plot::{Axis, Plot};

/// Colours there are; a phase beyond them shares one.
const COLOURS: usize = 6;

/// A line: its points in order.
type Points = Vec<(f64, f64)>;

/// A phase of the run, by its name and colour.
pub(super) struct Phase<'a> {
    pub(super) name: &'a str,
    pub(super) colour: usize,
    pub(super) json: &'a Value,
}

/// The phases that were measured, in their order.
pub(super) fn phases(run: &Value) -> Vec<Phase<'_>> {
    let names = run["phases"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let measured = names.filter_map(|name| Some((name, run.get(name)?)));
    measured
        .filter(|(_, json)| json.is_object())
        .enumerate()
        .map(|(number, (name, json))| Phase { name, colour: number % COLOURS, json })
        .collect()
}

impl Phase<'_> {
    fn rounds(&self) -> impl Iterator<Item = &Value> {
        self.json["rounds"].as_array().into_iter().flatten()
    }

    fn class(&self) -> String {
        format!("c{}", self.colour)
    }

    /// True where the ceiling is a throughput, so that it can stand in a chart of throughput.
    fn is_throughput(&self) -> bool {
        text(self.json, "/figure/unit") == "MB/s"
    }
}

/// The steps of a round's throughput from `begun` on: each interval at its height, from its start
/// to its end.
fn steps(round: &Value, begun: f64) -> Points {
    let interval = number(round, "/series/interval_s").unwrap_or(0.1);
    let slots = round["series"]["bytes"].as_array();
    let bytes: Vec<f64> = slots.into_iter().flatten().filter_map(Value::as_f64).collect();
    let last = number(round, "/series/last_interval_s").unwrap_or(interval);
    let mut points = Vec::new();
    for (slot, moved) in bytes.iter().enumerate() {
        let is_last = slot + 1 == bytes.len();
        let length = if is_last { last } else { interval };
        // The last sliver of a phase is no rate: what ended in it was done before.
        if is_last && slot > 0 && length < interval / 4.0 {
            continue;
        }
        let start = begun + slot as f64 * interval;
        let rate = moved / 1e6 / length.max(1e-9);
        points.extend([(start, rate), (start + length, rate)]);
    }
    points
}

/// A phase's rounds one behind the other, without the time in between, which belongs to the ceiling
/// and to other phases: the phase's throughput and its ceilings.
fn behind_each_other(phase: &Phase<'_>) -> [Points; 2] {
    let (mut engine, mut ceilings, mut begun) = (Vec::new(), Vec::new(), 0.0);
    for round in phase.rounds() {
        let Some(elapsed) = number(round, "/elapsed_s") else { continue };
        engine.extend(steps(round, begun));
        if let Some(ceiling) = number(round, "/ceiling") {
            ceilings.extend([(begun, ceiling), (begun + elapsed, ceiling)]);
        }
        begun += elapsed;
    }
    [engine, ceilings]
}

/// Throughput of all phases over the time they were measured, with the ceiling of each round.
pub(super) fn throughput(phases: &[Phase<'_>]) -> Option<String> {
    let shown: Vec<_> = phases
        .iter()
        .filter(|phase| phase.is_throughput())
        .map(|phase| (phase, behind_each_other(phase)))
        .collect();
    let points = || shown.iter().flat_map(|(_, lines)| lines.iter().flatten());
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    if high == 0.0 {
        return None;
    }
    let x = Axis::linear("seconds measured, round after round", end);
    let mut plot = Plot::new(x, Axis::linear("MB/s", high));
    for (phase, [engine, ceilings]) in &shown {
        let dashed = format!("{} dashed", phase.class());
        plot.line(&dashed, ceilings);
        plot.line(&phase.class(), engine);
        plot.name(&phase.class(), phase.name);
        let ceiling = text(phase.json, "/figure/ceiling_is");
        plot.name(&dashed, &format!("its ceiling: {ceiling}"));
    }
    Some(plot.draw("Throughput over time, with the ceiling of each round"))
}

/// Each round's share of the ceiling that was measured beside it.
pub(super) fn rounds(phases: &[Phase<'_>]) -> Option<String> {
    let share = |phase: &Phase<'_>, round: &Value| {
        let (engine, ceiling) = (number(round, "/engine")?, number(round, "/ceiling")?);
        let lower_is_better = phase.json["figure"]["lower_is_better"].as_bool()?;
        let share = if lower_is_better { ceiling / engine } else { engine / ceiling };
        share.is_finite().then_some(share * 100.0)
    };
    let shares: Vec<(&Phase<'_>, Points)> = phases
        .iter()
        .map(|phase| {
            let all = phase.rounds().enumerate();
            let points = all.filter_map(|(n, round)| Some((n as f64 + 1.0, share(phase, round)?)));
            (phase, points.collect())
        })
        .filter(|(_, points): &(_, Vec<_>)| !points.is_empty())
        .collect();
    let points = || shares.iter().flat_map(|(_, points)| points);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    if last == 0.0 {
        return None;
    }
    let step = (last / 12.0).ceil().max(1.0);
    let ticks: Vec<_> =
        (0..).map(|n| 1.0 + f64::from(n) * step).take_while(|at| *at <= last).collect();
    let ticks = ticks.into_iter().map(|at| (at, format!("{at:.0}"))).collect();
    let x = Axis::with_ticks("round", 0.5, last + 0.5, ticks);
    let mut plot = Plot::new(x, Axis::linear("% of the ceiling", high.max(100.0)));
    plot.line("limit dashed", &[(0.5, 100.0), (last + 0.5, 100.0)]);
    for (phase, points) in &shares {
        plot.line(&format!("{} thin", phase.class()), points);
        for point in points {
            let title = format!("{}, round {:.0}: {:.1} %", phase.name, point.0, point.1);
            plot.dot(&phase.class(), *point, &title);
        }
        plot.name(&phase.class(), phase.name);
    }
    plot.name("limit dashed", "the ceiling");
    Some(plot.draw("Share of the ceiling in each round"))
}

/// Latency by percentile; every nine takes the same room.
pub(super) fn latency(run: &Value, phases: &[Phase<'_>]) -> Option<String> {
    let curve = |value: &Value| -> Points {
        let points = value.as_array().into_iter().flatten();
        points
            .filter_map(|point| Some((point[0].as_f64()?, point[1].as_f64()?)))
            .filter(|point| point.0 >= 0.0 && point.1 > 0.0)
            .collect()
    };
    let mut curves: Vec<(String, String, Points)> = phases
        .iter()
        .map(|phase| {
            let points = curve(&phase.json["percentiles_us"]);
            (phase.class(), phase.name.to_owned(), points)
        })
        .collect();
    let synced = curve(&run["ceiling"]["sync_write_percentiles_us"]);
    curves.push(("limit dashed".to_owned(), "the ceiling's synced write".to_owned(), synced));
    curves.retain(|(_, _, points)| points.len() > 1);
    // The maximum has no place among the percentiles: it goes where one sample in all lies.
    let deepest = curves
        .iter()
        .flat_map(|(_, _, points)| points)
        .filter(|point| point.0 < 100.0)
        .map(|point| nines(point.0))
        .fold(1.0, f64::max);
    let us = || curves.iter().flat_map(|(_, _, points)| points).map(|point| point.1);
    let (low, high) = (us().fold(f64::INFINITY, f64::min), us().fold(0.0, f64::max));
    if curves.is_empty() {
        return None;
    }
    let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999]
        .into_iter()
        .filter(|percent| nines(*percent) <= deepest + 1e-9)
        .map(|percent| (nines(percent), format!("{percent} %")))
        .collect();
    let x = Axis::with_ticks("share of operations that were at least as fast", 0.0, deepest, ticks);
    let mut plot = Plot::new(x, Axis::logarithmic("microseconds", low, high));
    for (class, name, points) in &curves {
        let points: Vec<_> =
            points.iter().filter(|point| point.0 < 100.0).map(|p| (nines(p.0), p.1)).collect();
        plot.line(class, &points);
        plot.name(class, name);
    }
    Some(plot.draw("Latency by percentile"))
}

/// How many nines a percentile has: 0, 1 for 90 %, 2 for 99 %.
fn nines(percent: f64) -> f64 {
    -(1.0 - percent / 100.0).max(1e-12).log10()
}

/// Bars of CPU time by phase, in percent of a core: user code and the kernel's.
pub(super) fn cpu(phases: &[Phase<'_>]) -> Option<String> {
    let known: Vec<_> = phases
        .iter()
        .filter_map(|phase| {
            let usage = |key: &str| number(phase.json, &format!("/usage/{key}"));
            let wall = usage("wall_s").filter(|wall| *wall > 0.0)?;
            let percent = |key| Some(usage(key)? / wall * 100.0);
            Some((phase, percent("cpu_user_s")?, percent("cpu_system_s")?))
        })
        .collect();
    let full = known.iter().map(|(_, user, system)| user + system).fold(100.0, f64::max);
    let mut rows = String::new();
    for (phase, user, system) in &known {
        let _ = write!(
            rows,
            "<tr><th>{}</th><td class=\"bar\"><div><span class=\"user\" style=\"width:{:.1}%\">\
             </span><span class=\"system\" style=\"width:{:.1}%\"></span></div></td><td \
             class=\"number\">{} % user, {} % kernel</td></tr>",
            escape(phase.name),
            user / full * 100.0,
            system / full * 100.0,
            figure(*user),
            figure(*system),
        );
    }
    (!known.is_empty()).then(|| {
        format!(
            "<table class=\"bars\"><tbody>{rows}</tbody></table>\n<ul class=\"legend\"><li><span \
             class=\"swatch user\"></span>user code</li><li><span class=\"swatch system\"></span>\
             kernel</li></ul>\n<p class=\"note\">A full bar is {} % of a core; all threads of the \
             process, the load's own included.</p>\n",
            figure(full)
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_nine_takes_the_same_room() {
        assert_eq!(nines(0.0), 0.0);
        assert!((nines(90.0) - 1.0).abs() < 1e-9 && (nines(99.9) - 3.0).abs() < 1e-9);
        assert!(nines(100.0).is_finite());
    }

    #[test]
    fn steps_are_work_over_the_time_of_their_interval() {
        let round = json!({"elapsed_s": 0.15, "ceiling": 3.0, "series":
            {"interval_s": 0.1, "last_interval_s": 0.05, "bytes": [100_000_000, 50_000_000]}});
        let points = steps(&round, 2.0);
        assert_eq!(points.len(), 4);
        assert!(points.iter().all(|point| (point.1 - 1000.0).abs() < 1e-6), "{points:?}");
        assert_eq!((points[0].0, points[3].0), (2.0, 2.15));
        // Rounds follow each other without a gap, each with its ceiling.
        let phase = json!({"rounds": [round, round]});
        let [engine, ceilings] =
            behind_each_other(&Phase { name: "append", colour: 0, json: &phase });
        assert_eq!((engine.len(), engine[4].0), (8, 0.15));
        assert_eq!(ceilings, [(0.0, 3.0), (0.15, 3.0), (0.15, 3.0), (0.3, 3.0)]);
        // A sliver is left out: a millisecond that answered a batch is not 100 times as fast.
        let mut sliver = round;
        sliver["series"]["last_interval_s"] = json!(0.001);
        assert_eq!(steps(&sliver, 0.0).len(), 2);
        assert!(steps(&json!({}), 0.0).is_empty());
    }

    #[test]
    fn without_data_there_is_no_chart() {
        let run = json!({"phases": ["append", "poll", 3], "append": {}, "poll": null});
        let phases = phases(&run);
        assert_eq!(phases.len(), 1);
        assert!(throughput(&phases).is_none() && rounds(&phases).is_none());
        assert!(latency(&run, &phases).is_none() && cpu(&phases).is_none());
    }
}
