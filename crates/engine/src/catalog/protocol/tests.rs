//! The protocol between catalog and directories, crashed behind every step.

use std::collections::BTreeMap;

use corelog_format::Identifier;

use super::*;
use crate::catalog::error::ChangeError;
use crate::catalog::plan::Plan;
use crate::catalog::row::Row;
use crate::topic::{TopicConfig, TopicOptions};

/// A machine: what is durable, and what is served. A directory is the life that its manifest names.
#[derive(Default)]
struct Machine {
    rows: Vec<Row>,
    dirs: BTreeMap<PartitionId, u64>,
    trash: Vec<u64>,
    served: BTreeMap<PartitionId, u64>,
}

impl Machine {
    fn new() -> Machine {
        let rows = vec![Row::FirstIncarnation(100), Row::NextIncarnation(100)];
        Machine { rows, ..Machine::default() }
    }

    /// The catalog as the rows in their history make it, checked as an opening checks it.
    fn model(&self) -> Model {
        let mut model = Model::default();
        for row in &self.rows {
            model.apply(row.clone()).unwrap();
        }
        model
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Close(id) => drop(self.served.remove(&id)),
            Step::MoveAway(ended) => self.throw_away(ended.id, ended.incarnation),
            Step::Open(entry) => {
                // As the opener does: a directory of another life goes first.
                if let Some(found) = self.dirs.get(&entry.id).copied()
                    && found != entry.incarnation
                {
                    self.throw_away(entry.id, found);
                }
                self.dirs.insert(entry.id, entry.incarnation);
                self.served.insert(entry.id, entry.incarnation);
            }
        }
    }

    fn throw_away(&mut self, id: PartitionId, incarnation: u64) {
        assert!(!self.served.contains_key(&id), "{id} is moved away while it is served");
        if self.dirs.get(&id) == Some(&incarnation) {
            self.dirs.remove(&id);
            self.trash.push(incarnation);
        }
    }

    /// The power fails, and it is opened again.
    fn crash_and_open(&mut self) {
        self.served.clear();
        let model = self.model();
        for step in
            opening(&model, self.dirs.clone().into_iter().map(|(id, life)| (id, Some(life))))
        {
            self.take(step);
        }
    }

    /// What is served is what the catalog has, each in the life that the catalog says, and nothing
    /// else has a directory.
    fn check(&self, why: &str) {
        let model = self.model();
        let wanted: BTreeMap<_, _> =
            model.entries().into_iter().map(|entry| (entry.id, entry.incarnation)).collect();
        assert_eq!(self.served, wanted, "{why}");
        assert_eq!(self.dirs, wanted, "{why}");
        for life in self.served.values() {
            assert!(!self.trash.contains(life), "{why}: life {life} is served and in the trash");
        }
    }
}

type Change = fn(&Model) -> Result<Plan, ChangeError>;

fn id(number: u32) -> Identifier<'static> {
    Identifier::Numeric(number)
}

fn topic(model: &Model, name: &str, partitions: u32) -> Result<Plan, ChangeError> {
    let options = TopicOptions::from(TopicConfig { partitions, ..TopicConfig::default() });
    model.create_topic(id(0), name, &options, 1).map(|(_, plan)| plan)
}

/// One change after the other, each of a kind of its own.
const CHANGES: [(&str, Change); 14] = [
    ("create a stream", |m| m.create_stream("a", 1).map(|(_, plan)| plan)),
    ("create a topic", |m| topic(m, "x", 3)),
    ("create a second one", |m| topic(m, "y", 2)),
    ("create a group", |m| m.create_group(id(0), id(1), "g", 1).map(|(_, plan)| plan)),
    ("add partitions", |m| m.add_partitions(id(0), id(0), 2, 1).map(|(_, plan)| plan)),
    ("purge a topic", |m| m.purge_topic(id(0), id(0)).map(|(_, plan)| plan)),
    ("remove partitions", |m| m.remove_partitions(id(0), id(0), 3).map(|(_, plan)| plan)),
    ("add them again", |m| m.add_partitions(id(0), id(0), 3, 1).map(|(_, plan)| plan)),
    ("rename the stream", |m| m.rename_stream(id(0), "b").map(|(_, plan)| plan)),
    ("delete a topic", |m| m.delete_topic(id(0), id(0)).map(|(_, plan)| plan)),
    ("create one in its place", |m| topic(m, "x", 1)),
    ("purge the stream", |m| m.purge_stream(id(0)).map(|(_, plan)| plan)),
    ("delete the stream", |m| m.delete_stream(id(0)).map(|(_, plan)| plan)),
    ("create one in its place", |m| m.create_stream("c", 1).map(|(_, plan)| plan)),
];

/// Runs all changes; the one numbered `crash_in` crashes when it has taken `taken` steps (0: before
/// its rows were durable, 1: behind that). False where it has fewer.
fn run(crash_in: usize, taken: usize) -> bool {
    let mut machine = Machine::new();
    let mut crashed = false;
    for (number, (what, change)) in CHANGES.iter().enumerate() {
        let plan = change(&machine.model()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let steps = after(&plan);
        if number != crash_in {
            machine.rows.extend(plan.rows);
            steps.into_iter().for_each(|step| machine.take(step));
            machine.check(what);
            continue;
        }
        if taken > 1 + steps.len() {
            return false;
        }
        crashed = true;
        if taken > 0 {
            machine.rows.extend(plan.rows.clone());
            steps.into_iter().take(taken - 1).for_each(|step| machine.take(step));
        }
        machine.crash_and_open();
        machine.check(what);
        // An opening that crashed may be done again.
        machine.crash_and_open();
        machine.check(what);
        if taken == 0 {
            // It was not made: it can be made now.
            let plan = change(&machine.model()).unwrap();
            let steps = after(&plan);
            machine.rows.extend(plan.rows);
            steps.into_iter().for_each(|step| machine.take(step));
            machine.check(what);
        }
    }
    crashed
}

#[test]
fn a_crash_behind_any_step_leaves_nothing_half_done() {
    let mut crashes = 0;
    for change in 0..CHANGES.len() {
        let mut taken = 0;
        while run(change, taken) {
            taken += 1;
        }
        assert!(taken >= 2, "before and behind the commit, at least");
        crashes += taken;
    }
    assert!(crashes > 50, "{crashes}");
}

#[test]
fn directories_of_another_time_stay_where_they_are() {
    let machine = Machine::new();
    let found = [
        (PartitionId::new(0, 0, 0), Some(99)),
        (PartitionId::new(0, 0, 1), None),
        (PartitionId::new(9, 9, 9), Some(100)),
    ];
    assert_eq!(opening(&machine.model(), found), []);
}

#[test]
fn a_life_that_is_over_goes_and_one_that_is_not_stays() {
    let mut machine = Machine::new();
    for (_, change) in &CHANGES[..2] {
        let plan = change(&machine.model()).unwrap();
        let steps = after(&plan);
        machine.rows.extend(plan.rows);
        steps.into_iter().for_each(|step| machine.take(step));
    }
    let orphan = PartitionId::new(0, 0, 7);
    let found = [(PartitionId::new(0, 0, 0), Some(100)), (orphan, Some(101))];
    let steps = opening(&machine.model(), found);
    assert_eq!(steps[0], Step::MoveAway(Ended { id: orphan, incarnation: 101 }));
    assert_eq!(steps.len(), 4);
    assert!(steps[1..].iter().all(|step| matches!(step, Step::Open(_))));
}
