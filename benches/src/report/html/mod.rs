//! The report as one page that needs nothing else: no network, no script, styles and charts inline.
//!
//! Made from the JSON of a run, by `run --html` and, from a file, by `report`. So whatever stands
//! in a file is from outside, and is escaped.

mod charts;
mod markup;
mod plot;

use std::fmt::Write;

use serde_json::Value;

use charts::{Phase, phases};
use markup::{escape, facts, figure, figure_of, number, text};

const STYLE: &str = include_str!("style.css");

/// What the page explains at its end.
const HOW_TO_READ: &str = "\
<p>A phase of the engine and the same of a raw io_uring without an engine, the ceiling, are \
measured in turns on the same disk, so that a disk that drifts drifts for both. A share of the \
ceiling is the median of the rounds' shares; the interval holds the true median with 95 %.</p>
<p>Percentiles are those of all samples in one histogram, never averages of percentiles. In a \
closed loop the next operation waits for an answer, so latencies are service times; in an open \
loop they run from the moment at which the schedule wanted the operation to begin.</p>
<p>What a phase cost is about the whole process, its producers and consumers included; bytes of \
the device are everybody's. System calls are those that the kernel counts for a process: what goes \
through io_uring is not among them.</p>
";

/// The whole page for the JSON of a run.
pub(crate) fn page(run: &Value) -> String {
    let phases = phases(run);
    let mut body = header(run);
    for key in ["notes", "doubts"] {
        for sentence in run[key].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let _ = writeln!(body, "<p class=\"doubt\">{}</p>", escape(sentence));
        }
    }
    body.push_str(&cards(&phases));
    let mut section = |title: &str, content: Option<String>| {
        if let Some(content) = content {
            let _ = writeln!(body, "<section><h2>{title}</h2>\n{content}</section>");
        }
    };
    section("Throughput over time", charts::throughput(&phases));
    section("Share of the ceiling, round by round", charts::rounds(&phases));
    section("Latency", charts::latency(run, &phases));
    section("CPU", charts::cpu(&phases));
    section("Figures", (!phases.is_empty()).then(|| figures(&phases)));
    section("What it cost", (!phases.is_empty()).then(|| costs(&phases)));
    section("The run", Some(facts(&run["settings"], "not set")));
    section("The ceiling", Some(facts(&run["ceiling"], "not measured")));
    section("The machine", Some(facts(&run["machine"], "unknown")));
    section("How to read this", Some(HOW_TO_READ.to_owned()));
    let title = escape(&title(run));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n{body}</body>\n</html>\n"
    )
}

fn title(run: &Value) -> String {
    let machine = &run["machine"];
    let or = |path: &str, unknown: &'static str| match text(machine, path) {
        "" => unknown.to_owned(),
        known => known.to_owned(),
    };
    format!(
        "Corelog on {} ({})",
        or("/file_system", "an unknown file system"),
        or("/mount_source", "an unknown device")
    )
}

fn header(run: &Value) -> String {
    let mut header = format!("<header><h1>{}</h1>\n", escape(&title(run)));
    let known = |words: String| (!words.trim().is_empty()).then_some(words);
    let machine = &run["machine"];
    let cpus = number(machine, "/cpus").map(|cpus| format!("{} x ", figure(cpus)));
    let commit = known(format!(" {}", text(run, "/program/commit"))).unwrap_or_default();
    let parts = [
        number(run, "/started_unix_s").map(date),
        known(format!("{}{}", cpus.unwrap_or_default(), text(machine, "/cpu_model"))),
        known(text(machine, "/kernel").to_owned()).map(|kernel| format!("Linux {kernel}")),
        known(format!("corelog-bench {}{commit}", text(run, "/program/version"))),
        (text(run, "/ended") == "interrupted").then(|| "stopped before its end".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let _ = writeln!(header, "<p class=\"sub\">{}</p></header>", escape(&parts.join(" \u{b7} ")));
    header
}

/// A moment as `2026-11-30 10:48 UTC`.
fn date(unix_s: f64) -> String {
    let seconds = unix_s.clamp(0.0, 253_402_300_799.0) as i64;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days, with years that begin in March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60)
}

/// One card a phase: its figure, how much of the ceiling that is, and how long operations took.
fn cards(phases: &[Phase<'_>]) -> String {
    let mut cards = String::from("<div class=\"cards\">\n");
    for Phase { name, colour, json } in phases {
        let unit = text(json, "/figure/unit");
        let _ = writeln!(
            cards,
            "<div class=\"card\"><h3>{}</h3><div class=\"big\">{} <small>{}</small></div>",
            escape(name),
            figure_of(&json["figure"]["engine"]),
            escape(if unit == "us" { "us, median" } else { unit }),
        );
        let lower_is_better = json["figure"]["lower_is_better"] == true;
        if let Some(share) = number(json, "/figure/of_ceiling") {
            let _ = writeln!(
                cards,
                "<div class=\"meter\"><span class=\"b{colour}\" style=\"width:{:.1}%\"></span>\
                 </div><p>{} % of the ceiling, {}\u{a0}{}{}</p>",
                (share * 100.0).clamp(0.0, 100.0),
                figure(share * 100.0),
                figure_of(&json["figure"]["ceiling"]),
                escape(unit),
                if lower_is_better { ": less is better" } else { "" },
            );
        }
        let latency = &json["latency_us"];
        let _ = writeln!(
            cards,
            // A figure stays with its name where the line breaks.
            "<p>p50\u{a0}{}, p99\u{a0}{}, p99.9\u{a0}{}, at\u{a0}most\u{a0}{}\u{a0}us</p>\
             <p class=\"note\">{}</p></div>",
            figure_of(&latency["p50"]),
            figure_of(&latency["p99"]),
            figure_of(&latency["p999"]),
            figure_of(&latency["max"]),
            escape(text(json, "/operation")),
        );
    }
    cards + "</div>\n"
}

/// A row of a table over the phases: its words, and where the figure stands.
type Row = (&'static str, &'static str);

const FIGURES: [Row; 14] = [
    ("MB/s", "/mb_per_s"),
    ("messages a second", "/messages_per_s"),
    ("operations a second", "/operations_per_s"),
    ("operations", "/operations"),
    ("MB moved", "/bytes"),
    ("seconds measured", "/elapsed_s"),
    ("p50, us", "/latency_us/p50"),
    ("p90, us", "/latency_us/p90"),
    ("p99, us", "/latency_us/p99"),
    ("p99.9, us", "/latency_us/p999"),
    ("longest, us", "/latency_us/max"),
    ("service time p50, us", "/service_latency_us/p50"),
    ("service time p99, us", "/service_latency_us/p99"),
    ("share of the ceiling, %", "/figure/of_ceiling"),
];

const COSTS: [Row; 17] = [
    ("CPU, % of a core", "/usage/cpu_percent"),
    ("CPU, seconds a GB", "/usage/cpu_s_per_gb"),
    ("context switches, voluntary", "/usage/context_switches_voluntary"),
    ("context switches, involuntary", "/usage/context_switches_involuntary"),
    ("page faults, minor", "/usage/page_faults_minor"),
    ("page faults, major", "/usage/page_faults_major"),
    ("read system calls (without io_uring)", "/usage/read_syscalls_without_io_uring"),
    ("write system calls (without io_uring)", "/usage/write_syscalls_without_io_uring"),
    ("MB the process wrote", "/usage/process_written_bytes"),
    ("MB the device wrote", "/usage/device_written_bytes"),
    ("MB the device read", "/usage/device_read_bytes"),
    ("writes of the device", "/usage/device_writes"),
    ("flushes of the device", "/usage/device_flushes"),
    ("device bytes a byte appended", "/usage/device_bytes_per_appended_byte"),
    ("peak memory, MB", "/usage/peak_rss_bytes"),
    ("page cache grew by, MB", "/usage/page_cache_growth_bytes"),
    ("instructions", "/usage/instructions"),
];

fn figures(phases: &[Phase<'_>]) -> String {
    table(phases, &FIGURES)
}

fn costs(phases: &[Phase<'_>]) -> String {
    table(phases, &COSTS)
}

/// From the unit of the JSON to that of the table: bytes to MB, fractions to percent.
fn scale(path: &str) -> f64 {
    if path.ends_with("bytes") {
        1e-6
    } else if path.ends_with("of_ceiling") {
        100.0
    } else {
        1.0
    }
}

fn table(phases: &[Phase<'_>], rows: &[Row]) -> String {
    let mut table =
        String::from("<div class=\"wide\"><table class=\"figures\"><thead><tr><th></th>");
    for phase in phases {
        let _ = write!(table, "<th>{}</th>", escape(phase.name));
    }
    table.push_str("</tr></thead><tbody>");
    // A row that no phase has a figure for says nothing.
    let is_known = |row: &&Row| phases.iter().any(|phase| number(phase.json, row.1).is_some());
    for (words, path) in rows.iter().filter(is_known) {
        let _ = write!(table, "<tr><th>{words}</th>");
        for phase in phases {
            let value = number(phase.json, path).map_or(f64::NAN, |value| value * scale(path));
            let _ = write!(table, "<td>{}</td>", figure(value));
        }
        table.push_str("</tr>");
    }
    table + "</tbody></table></div>\n"
}

#[cfg(test)]
mod tests;
