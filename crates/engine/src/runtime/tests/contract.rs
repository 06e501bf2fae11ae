//! The suite that the simulated platform passes as well.

use super::*;

#[test]
fn the_real_platform_keeps_the_contract() {
    on_shard("contract", |platform, dir| async move {
        corelog_io::contract::suite(&platform, &dir).await;
    });
}

/// The same through the page cache: what `DirectIo::Preferred` falls back to. Asked for by hand
/// here, as the build's file system takes O_DIRECT.
#[test]
fn buffered_handles_keep_the_contract() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "contract_buffered");
        let main = main_of({
            let dir = dir.clone();
            move |_, platform| {
                let dir = dir.clone();
                async move {
                    assert!(!platform.disk().is_direct());
                    corelog_io::contract::suite(&platform, &dir).await;
                }
            }
        });
        let probed = direct::buffered(&dir).expect("the directory is writable");
        let threads = ShardThreads::start_with(options(runtime, &dir, 1), main, probed)
            .expect("the runtime starts");
        assert_eq!(threads.join(), [ShardEnd::Clean]);
    });
}
