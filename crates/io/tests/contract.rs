//! The simulated platform keeps the contract that the real one keeps, whatever the seed.

use std::path::Path;

use corelog_io::sim::Sim;
use corelog_io::{Disk, contract};

#[test]
fn the_simulated_platform_keeps_the_contract() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        sim.run(async {
            let root = Path::new("/data");
            sim.disk().create_dir(root).await.expect("create the root");
            let disk = sim.disk().clone();
            let link = move |_: &Path, link: &Path| disk.put_symlink(link);
            contract::suite_with_links(sim.platform(), root, &link).await;
            let panics = sim.take_panics();
            assert_eq!(panics.len(), 1, "the one on purpose: {panics:?}");
        });
        assert_eq!(sim.disk().open_files(), 0, "handles are left");
        assert_eq!(
            sim.disk().buffers().used() + sim.disk().read_bytes_held(),
            0,
            "buffers are left"
        );
    }
}
