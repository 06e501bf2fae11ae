//! One run, many power cuts: images of what each would leave.

use std::collections::BTreeSet;
use std::pin::pin;

use corelog_io::sim::{Fault, Sim};
use corelog_io::{BLOCK, Disk, File, IoOp};

use super::{create, durable_file, filled, open, poll_once};

#[test]
fn images_are_what_a_cut_would_leave_and_the_run_goes_on() {
    let sim = Sim::new(1);
    let seen = sim.run(async {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        create(sim.disk(), "/b").await;
        sim.disk().inject(Fault::delay(std::time::Duration::from_secs(1)).of(IoOp::Write));
        let mut write = pin!(file.write_at(filled(sim.disk(), 1, 2), 0));
        assert!(poll_once(write.as_mut()).await.is_none());
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let image = sim.disk().image_of_power_cut(seed);
            let bytes = image.contents("/a").expect("the name is durable");
            assert!(bytes.chunks(512).all(|s| s == [1; 512] || s == [2; 512]));
            seen.insert((image.files().len(), bytes.contains(&1), bytes.contains(&2)));
        }
        write.await.expect("the run goes on");
        assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [2; BLOCK]);
        seen
    });
    let expected = [(true, false), (false, true), (true, true)];
    let expected: BTreeSet<_> =
        expected.iter().flat_map(|(old, new)| [(1, *old, *new), (2, *old, *new)]).collect();
    assert_eq!(seen, expected, "names and bytes are kept or lost on their own");
}

#[test]
fn a_simulation_begins_where_an_image_ends_and_shares_nothing() {
    let sim = Sim::new(1);
    sim.run(async { drop(durable_file(sim.disk(), "/a", 2, 1).await) });
    let image = sim.disk().image_of_power_cut(1);
    let next = Sim::from_image(2, &image);
    assert_eq!(next.disk().used(), 2 * BLOCK as u64);
    next.run(async {
        let file = open(next.disk(), "/a", super::WRITE).await;
        file.write_at(filled(next.disk(), 1, 9), 0).await.expect("write");
        next.disk().remove("/a".as_ref()).await.expect("remove");
    });
    assert_eq!(sim.disk().contents("/a").expect("there"), [1; 2 * BLOCK]);
    assert_eq!(image.contents("/a").expect("there"), [1; 2 * BLOCK]);
}
