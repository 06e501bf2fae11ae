//! Runs a process on a recorded device and notes, for each line that it says, how far the device's
//! journal had come when the line was read: whatever the line promises must be kept by every cut
//! from there on.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::recorder::Recording;
use super::verify::KNOWN;
use crate::ledger::{Entry, Event, Ledger};

/// What a process said. The time of each entry is a place in the journal.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// Behind which entries it said that this is all that is known, and the place.
    known: Vec<(usize, u64)>,
    /// Lines that are no entries.
    pub others: Vec<String>,
}

impl Said {
    fn hear(&mut self, line: String, place: u64) {
        match line.parse::<Entry>() {
            Ok(entry) => self.entries.push(Entry { at_us: place, ..entry }),
            Err(_) if line == KNOWN => self.known.push((self.entries.len(), place)),
            Err(_) => self.others.push(line),
        }
    }

    /// What a cut at `place` is judged by. What was answered later does not count; what was
    /// offered, or refused, does at any time, since its line may be read late.
    pub fn until(&self, place: usize) -> Ledger {
        let counts = |entry: &&Entry| match entry.event {
            Event::Offered { .. }
            | Event::Changing(_)
            | Event::Refused { .. }
            | Event::Failed { .. } => true,
            _ => entry.at_us <= place as u64,
        };
        Ledger { entries: self.entries.iter().filter(counts).cloned().collect() }
    }

    /// What a cut at `place` of a process that judges is judged by: the last that it knew before
    /// it, or `before` where that was nothing, and all that it has offered.
    pub fn known_at(&self, place: usize, before: &Ledger) -> Ledger {
        let until = self.known.iter().rposition(|(_, at)| *at <= place as u64);
        let mut entries = match until {
            None => before.entries.clone(),
            Some(known) => {
                let from = known.checked_sub(1).map_or(0, |before| self.known[before].0);
                self.entries[from..self.known[known].0].to_vec()
            }
        };
        let offer = |entry: &Entry| match entry.event {
            Event::Offered { partition, key, .. } => Some((partition, key)),
            _ => None,
        };
        let mut offered: HashSet<_> = entries.iter().filter_map(offer).collect();
        for entry in &self.entries {
            if offer(entry).is_some_and(|new| offered.insert(new)) {
                entries.push(entry.clone());
            }
        }
        Ledger { entries }
    }

    /// The places at which something was promised.
    pub fn promises(&self) -> Vec<usize> {
        let promised = self.entries.iter().filter(|entry| {
            matches!(
                entry.event,
                Event::Acked { .. }
                    | Event::Changed { .. }
                    | Event::Reached { .. }
                    | Event::Served { .. }
            )
        });
        let known = self.known.iter().map(|(_, place)| *place);
        promised.map(|entry| entry.at_us).chain(known).map(|place| place as usize).collect()
    }
}

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    /// It has run for so long.
    pub patience: Duration,
    /// So long after it opened its engine.
    pub opened: Option<Duration>,
    /// So many bytes were written to the device.
    pub bytes: u64,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What it said.
    pub said: Said,
    /// What it wrote to its standard error.
    pub complained: String,
    /// How it ended, if nobody killed it.
    pub status: Option<ExitStatus>,
    /// It was killed for taking too long.
    pub hung: bool,
}

/// Runs `command` until it ends or is killed.
///
/// # Errors
/// It cannot be started.
pub fn watch(command: &mut Command, recording: &Recording, until: Until) -> std::io::Result<Ended> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (opened, has_opened) = std::sync::mpsc::channel();
    let places = recording.clone();
    let listening = thread::spawn(move || {
        let mut said = Said::default();
        for line in stdout.into_iter().flat_map(|out| BufReader::new(out).lines()) {
            let Ok(line) = line else { break };
            let place = places.place() as u64;
            said.hear(line, place);
            if said.entries.last().is_some_and(|entry| entry.event == Event::Opened) {
                let _ = opened.send(());
            }
        }
        said
    });
    let complaining = thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        text
    });
    let (status, hung) = wait(&mut child, recording, until, &has_opened)?;
    let joined = "the thread only reads";
    let said = listening.join().expect(joined);
    Ok(Ended { said, complained: complaining.join().expect(joined), status, hung })
}

fn wait(
    child: &mut Child,
    recording: &Recording,
    until: Until,
    has_opened: &std::sync::mpsc::Receiver<()>,
) -> std::io::Result<(Option<ExitStatus>, bool)> {
    let began = Instant::now();
    let mut opened = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), false));
        }
        if opened.is_none() && has_opened.try_recv().is_ok() {
            opened = Some(Instant::now());
        }
        let hung = began.elapsed() > until.patience;
        let long = opened.zip(until.opened).is_some_and(|(since, long)| since.elapsed() > long);
        if hung || long || recording.bytes() > until.bytes {
            child.kill()?;
            child.wait()?;
            return Ok((None, hung));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use corelog::{Ack, Appended, PartitionId};

    use super::*;
    use crate::content::BatchKey;

    const PARTITION: PartitionId = PartitionId::new(0, 0, 0);

    fn offered(nth: u32) -> Event {
        Event::Offered { partition: PARTITION, key: BatchKey::new(0, 0, nth), level: Ack::Durable }
    }

    fn acked(nth: u32) -> Event {
        let appended = Appended { base_offset: nth.into(), base_timestamp: 1, message_count: 1 };
        let (partition, key) = (PARTITION, BatchKey::new(0, 0, nth));
        Event::Acked { partition, key, level: Ack::Durable, appended }
    }

    fn hear(said: &mut Said, place: u64, events: &[Event]) {
        for event in events {
            // The time that the process itself gives is of no use here.
            said.hear(Entry { at_us: 99, event: event.clone() }.to_string(), place);
        }
    }

    fn events(ledger: &Ledger) -> Vec<Event> {
        ledger.entries.iter().map(|entry| entry.event.clone()).collect()
    }

    #[test]
    fn a_cut_owes_what_was_answered_before_it_and_may_find_all_that_was_offered() {
        let mut said = Said::default();
        hear(&mut said, 10, &[Event::Opened, offered(0), acked(0)]);
        hear(&mut said, 20, &[offered(1), acked(1)]);
        said.hear("verdict 1 2 3 4".to_owned(), 21);
        assert_eq!(events(&said.until(9)), [offered(0), offered(1)]);
        assert_eq!(
            events(&said.until(10)),
            [Event::Opened, offered(0), acked(0), offered(1)],
            "the line was read at 10, so it is owed from there on"
        );
        assert_eq!(said.until(20).entries.len(), 5);
        assert_eq!((said.promises(), said.others), (vec![10, 20], vec!["verdict 1 2 3 4".into()]));
    }

    #[test]
    fn a_cut_of_a_judge_owes_what_it_knew_last() {
        let mut said = Said::default();
        let before = Ledger { entries: vec![Entry { at_us: 3, event: offered(7) }] };
        hear(&mut said, 10, &[offered(0), acked(0)]);
        said.hear(KNOWN.to_owned(), 11);
        hear(&mut said, 20, &[offered(0), offered(5), acked(0)]);
        said.hear(KNOWN.to_owned(), 21);
        let at = |place| events(&said.known_at(place, &before));
        assert_eq!(at(10), [offered(7), offered(0), offered(5)], "nothing was known as a whole");
        assert_eq!(at(11), [offered(0), acked(0), offered(5)]);
        assert_eq!(at(21), [offered(0), offered(5), acked(0)]);
    }
}
