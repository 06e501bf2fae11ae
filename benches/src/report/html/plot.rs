//! A plot as inline SVG: axes with round ticks, lines, dots and labels. Colours are classes, so
//! that the style sheet of the page decides about light and dark.

use std::fmt::Write;

use super::markup::{escape, figure};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
/// Half of the longest tick, which is centred below the end of the axis.
const RIGHT: f64 = 28.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// Ticks of an axis at most, 0 not counted: fewer steps leave more of the paper empty.
const TICKS: f64 = 6.0;

/// How values become places on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    /// What it shows, with the unit.
    title: String,
    low: f64,
    high: f64,
    is_log: bool,
    /// Place and words of each tick.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to at least `high`, in round steps.
    pub(super) fn linear(title: &str, high: f64) -> Axis {
        let high = if high > 0.0 && high.is_finite() { high } else { 1.0 };
        let step = round_step(high / TICKS);
        let count = (high / step).ceil() as u32;
        let ticks = (0..=count).map(|tick| f64::from(tick) * step);
        let ticks = ticks.map(|at| (at, tick(at))).collect();
        Axis {
            title: title.to_owned(),
            low: 0.0,
            high: f64::from(count) * step,
            is_log: false,
            ticks,
        }
    }

    /// Whole decades around `low` to `high`, both above 0.
    pub(super) fn logarithmic(title: &str, low: f64, high: f64) -> Axis {
        let low = if low > 0.0 && low.is_finite() { low } else { 1.0 };
        let high = if high > low && high.is_finite() { high } else { low * 10.0 };
        let first = low.log10().floor() as i32;
        let last = (high.log10().ceil() as i32).max(first + 1);
        let decades = (first..=last).map(|power| 10_f64.powi(power));
        let ticks = decades.map(|at| (at, figure(at))).collect();
        let (low, high) = (10_f64.powi(first), 10_f64.powi(last));
        Axis { title: title.to_owned(), low, high, is_log: true, ticks }
    }

    /// From `low` to `high` with these ticks and nothing round.
    pub(super) fn with_ticks(title: &str, low: f64, high: f64, ticks: Vec<(f64, String)>) -> Axis {
        let high = if high > low { high } else { low + 1.0 };
        Axis { title: title.to_owned(), low, high, is_log: false, ticks }
    }

    /// Where a value lies, 0 at the low end and 1 at the high one; values beyond are at the end.
    fn place(&self, value: f64) -> f64 {
        let on = |value: f64| if self.is_log { value.max(1e-300).log10() } else { value };
        let (low, high) = (on(self.low), on(self.high));
        ((on(value) - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// A round value, without the zeros that a figure would end with.
fn tick(at: f64) -> String {
    match figure(at) {
        text if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        whole => whole,
    }
}

/// 1, 2 or 5 times a power of ten, at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    let power = 10_f64.powf(wanted.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fit = factors.into_iter().find(|factor| factor * power >= wanted * 0.999_999);
    fit.unwrap_or(10.0) * power
}

/// A plot that is being drawn.
#[derive(Debug)]
pub(super) struct Plot {
    x: Axis,
    y: Axis,
    body: String,
    /// Class and words of each entry of the legend.
    legend: Vec<(String, String)>,
}

impl Plot {
    pub(super) fn new(x: Axis, y: Axis) -> Plot {
        Plot { x, y, body: String::new(), legend: Vec::new() }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let width = WIDTH - LEFT - RIGHT;
        let height = HEIGHT - TOP - BOTTOM;
        (LEFT + self.x.place(x) * width, TOP + (1.0 - self.y.place(y)) * height)
    }

    /// A line through these points, which the caller has in order.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (number, point) in points.iter().enumerate() {
            let (x, y) = self.at(*point);
            let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { "M" } else { "L" });
        }
        if !path.is_empty() {
            let _ = writeln!(self.body, "<path class=\"line {class}\" d=\"{path}\"/>");
        }
    }

    /// A dot, with words that show when the pointer rests on it.
    pub(super) fn dot(&mut self, class: &str, point: (f64, f64), title: &str) {
        let (x, y) = self.at(point);
        let title = escape(title);
        let _ = writeln!(
            self.body,
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{title}\
             </title></circle>"
        );
    }

    /// Says what a class of lines or dots is.
    pub(super) fn name(&mut self, class: &str, words: &str) {
        self.legend.push((class.to_owned(), words.to_owned()));
    }

    /// The finished figure; `what` is for those who cannot see it.
    pub(super) fn draw(&self, what: &str) -> String {
        let mut svg = format!(
            "<div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-label=\"{}\">\n",
            escape(what)
        );
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, words) in &self.y.ticks {
            let (_, y) = self.at((self.x.low, *value));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/><text class=\"tick end\" \
                 x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                escape(words)
            );
        }
        for (value, words) in &self.x.ticks {
            let (x, _) = self.at((*value, self.y.low));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/><text class=\"tick middle\" \
                 x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 18.0,
                escape(words)
            );
        }
        let middle = f64::midpoint(LEFT, right);
        let _ = writeln!(
            svg,
            "<text class=\"axis middle\" x=\"{middle}\" y=\"{:.1}\">{}</text><text class=\"axis \
             middle\" transform=\"translate(14 {:.1}) rotate(-90)\">{}</text>",
            HEIGHT - 8.0,
            escape(&self.x.title),
            f64::midpoint(TOP, bottom),
            escape(&self.y.title)
        );
        svg.push_str(&self.body);
        svg.push_str("</svg></div>\n");
        svg + &self.legend()
    }

    fn legend(&self) -> String {
        let entry = |(class, words): &(String, String)| {
            format!(
                "<li><svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path \
                 class=\"line {class}\" d=\"M1 5H25\"/></svg>{}</li>",
                escape(words)
            )
        };
        let entries: String = self.legend.iter().map(entry).collect();
        format!("<ul class=\"legend\">{entries}</ul>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_highest_value() {
        let words = |axis: &Axis| axis.ticks.iter().map(|tick| tick.1.clone()).collect::<Vec<_>>();
        assert_eq!(
            words(&Axis::linear("", 2527.0)),
            ["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000"]
        );
        assert_eq!(words(&Axis::linear("", 0.9)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(words(&Axis::linear("", 1.4)), ["0", "0.5", "1", "1.5"]);
        assert_eq!(words(&Axis::linear("", f64::NAN)).len(), 6);
        assert_eq!(words(&Axis::linear("", 0.0)).len(), 6);
        assert_eq!(words(&Axis::logarithmic("", 30.0, 2000.0)), ["10", "100", "1,000", "10,000"]);
        assert_eq!(words(&Axis::logarithmic("", 0.0, f64::INFINITY)), ["1", "10"]);
        assert_eq!(words(&Axis::logarithmic("", 100.0, 100.0)), ["100", "1,000"]);
    }

    #[test]
    fn values_find_their_places() {
        let axis = Axis::linear("", 100.0);
        assert_eq!((axis.place(0.0), axis.place(50.0), axis.place(100.0)), (0.0, 0.5, 1.0));
        assert_eq!((axis.place(-1.0), axis.place(1e9)), (0.0, 1.0));
        let axis = Axis::logarithmic("", 1.0, 100.0);
        assert!((axis.place(10.0) - 0.5).abs() < 1e-12);
        assert_eq!(axis.place(0.0), 0.0);
    }
}
