//! What the kernel's io_uring can do, asked of a ring of its own; nothing is read or written.

use std::io;

use corelog::machine::URING_OPERATIONS;
use io_uring::{IoUring, Probe};

/// A ring's abilities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// `IORING_FEAT_*`, in lower case, as the kernel reports them at setup.
    pub(crate) features: Vec<&'static str>,
    /// Of the operations that the engine needs, and the ceiling with it, those that it has not.
    pub(crate) missing_operations: Vec<&'static str>,
    /// How many are needed.
    pub(crate) needed_operations: usize,
    /// SINGLE_ISSUER and DEFER_TASKRUN (Linux 6.1): the cheapest way to learn of completions.
    pub(crate) deferred_taskrun: bool,
}

/// Asks the kernel. The error is its refusal to make a ring at all.
pub(crate) fn abilities() -> io::Result<Abilities> {
    let ring = IoUring::new(8)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let params = ring.params();
    let features = [
        (params.is_feature_single_mmap(), "single_mmap"),
        (params.is_feature_nodrop(), "nodrop"),
        (params.is_feature_submit_stable(), "submit_stable"),
        (params.is_feature_rw_cur_pos(), "rw_cur_pos"),
        (params.is_feature_cur_personality(), "cur_personality"),
        (params.is_feature_fast_poll(), "fast_poll"),
        (params.is_feature_poll_32bits(), "poll_32bits"),
        (params.is_feature_sqpoll_nonfixed(), "sqpoll_nonfixed"),
        (params.is_feature_ext_arg(), "ext_arg"),
        (params.is_feature_native_workers(), "native_workers"),
        (params.is_feature_resource_tagging(), "rsrc_tags"),
        (params.is_feature_skip_cqe_on_success(), "cqe_skip"),
        (params.is_feature_linked_file(), "linked_file"),
    ];
    let missing = |(code, name): &(u8, &'static str)| (!probe.is_supported(*code)).then_some(*name);
    let deferred: io::Result<IoUring> =
        IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8);
    Ok(Abilities {
        features: features.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect(),
        missing_operations: URING_OPERATIONS.iter().filter_map(missing).collect(),
        needed_operations: URING_OPERATIONS.len(),
        deferred_taskrun: deferred.is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_can_run_the_engine() {
        let abilities = abilities().unwrap();
        assert_eq!(abilities.missing_operations, [""; 0]);
        assert!(abilities.features.contains(&"nodrop"), "{abilities:?}");
        assert!(abilities.needed_operations > 20, "{abilities:?}");
    }
}
