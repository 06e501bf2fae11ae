//! The start-up probe of io_uring: a clear refusal, before glommio can panic or exit the process.

use std::fmt;
use std::fs;
use std::io;

use io_uring::{IoUring, Probe, opcode};
use rustix::process::{Resource, getrlimit};

use super::choice::Runtime;

/// Locked memory that glommio asks for before it starts, whatever it then uses.
const MEMLOCK_MIN: u64 = 512 * 1024;

/// The operations of io_uring without which the engine does not open on its default runtime, by number
/// and the kernel's name: those that glommio 0.9 refuses to start without (it would exit the process
/// over them).
pub const URING_OPERATIONS: [(u8, &str); 23] = [
    (opcode::Nop::CODE, "NOP"),
    (opcode::Readv::CODE, "READV"),
    (opcode::Writev::CODE, "WRITEV"),
    (opcode::Fsync::CODE, "FSYNC"),
    (opcode::ReadFixed::CODE, "READ_FIXED"),
    (opcode::WriteFixed::CODE, "WRITE_FIXED"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::PollRemove::CODE, "POLL_REMOVE"),
    (opcode::SendMsg::CODE, "SENDMSG"),
    (opcode::RecvMsg::CODE, "RECVMSG"),
    (opcode::Timeout::CODE, "TIMEOUT"),
    (opcode::TimeoutRemove::CODE, "TIMEOUT_REMOVE"),
    (opcode::Accept::CODE, "ACCEPT"),
    (opcode::LinkTimeout::CODE, "LINK_TIMEOUT"),
    (opcode::Connect::CODE, "CONNECT"),
    (opcode::Fallocate::CODE, "FALLOCATE"),
    (opcode::OpenAt::CODE, "OPENAT"),
    (opcode::Close::CODE, "CLOSE"),
    (opcode::Statx::CODE, "STATX"),
    (opcode::Read::CODE, "READ"),
    (opcode::Write::CODE, "WRITE"),
    (opcode::Send::CODE, "SEND"),
    (opcode::Recv::CODE, "RECV"),
];

/// The operations of the ring runtime.
const OF_RING: [(u8, &str); 7] = [
    (opcode::Read::CODE, "READ"),
    (opcode::Write::CODE, "WRITE"),
    (opcode::ReadFixed::CODE, "READ_FIXED"),
    (opcode::WriteFixed::CODE, "WRITE_FIXED"),
    (opcode::Fsync::CODE, "FSYNC"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
];

/// io_uring cannot be used here, and why.
#[derive(Debug)]
#[non_exhaustive]
pub enum UringError {
    /// The kernel refused a ring.
    Refused {
        /// Its answer.
        source: io::Error,
        /// What the system says about io_uring, at the time of the refusal.
        facts: Facts,
    },
    /// The kernel lacks what the chosen runtime needs.
    Missing {
        /// The runtime.
        runtime: Runtime,
        /// Names of io_uring operations and abilities.
        operations: Vec<&'static str>,
    },
    /// RLIMIT_MEMLOCK is too low.
    Memlock {
        /// The limit, in bytes.
        limit: u64,
    },
}

/// What decides whether io_uring is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// `kernel.io_uring_disabled`: 0 allowed, 1 for a group only, 2 for nobody. None: no such knob.
    pub disabled: Option<u8>,
    /// RLIMIT_MEMLOCK in bytes, None for no limit.
    pub memlock: Option<u64>,
    /// RLIMIT_NOFILE.
    pub files: Option<u64>,
}

impl Facts {
    fn gather() -> Facts {
        let knob = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
        Facts {
            disabled: knob.and_then(|text| text.trim().parse().ok()),
            memlock: getrlimit(Resource::Memlock).current,
            files: getrlimit(Resource::Nofile).current,
        }
    }
}

/// Checks that a ring can be had, with all that `runtime` needs.
pub(crate) fn check(runtime: Runtime) -> Result<(), UringError> {
    let facts = Facts::gather();
    let is_too_low = |limit: &u64| runtime == Runtime::Glommio && *limit < MEMLOCK_MIN;
    if let Some(limit) = facts.memlock.filter(is_too_low) {
        return Err(UringError::Memlock { limit });
    }
    let mut probe = Probe::new();
    let ring = IoUring::new(2)
        .and_then(|ring| ring.submitter().register_probe(&mut probe).map(|()| ring))
        .map_err(|source| UringError::Refused { source, facts })?;
    let required: &[_] = match runtime {
        Runtime::Glommio => &URING_OPERATIONS,
        Runtime::Ring => &OF_RING,
    };
    let lacking = required.iter().filter(|(code, _)| !probe.is_supported(*code));
    let mut operations: Vec<_> = lacking.map(|(_, name)| *name).collect();
    // Came with the feature that is asked for, and has none of its own.
    if runtime == Runtime::Ring && !ring.params().is_feature_resource_tagging() {
        operations.push("multishot POLL_ADD");
    }
    if operations.is_empty() { Ok(()) } else { Err(UringError::Missing { runtime, operations }) }
}

/// The first Linux that has all of it.
fn first_linux(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Glommio => "5.8",
        Runtime::Ring => "5.13",
    }
}

impl fmt::Display for UringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UringError::Refused { source, facts } => {
                write!(f, "io_uring cannot be used ({source}): ")?;
                remedy(f, source, facts)
            }
            UringError::Missing { runtime, operations } => write!(
                f,
                "the kernel's io_uring lacks {}: the runtime {runtime} needs Linux {} or newer",
                operations.join(", "),
                first_linux(*runtime)
            ),
            UringError::Memlock { limit } => write!(
                f,
                "RLIMIT_MEMLOCK is {limit} bytes, at least {MEMLOCK_MIN} are needed: raise it \
                 (`ulimit -l`, systemd LimitMEMLOCK=, docker --ulimit memlock=)"
            ),
        }
    }
}

fn remedy(f: &mut fmt::Formatter<'_>, source: &io::Error, facts: &Facts) -> fmt::Result {
    match (source.raw_os_error(), facts.disabled) {
        (Some(libc::EPERM), Some(value @ 1..)) => write!(
            f,
            "the sysctl kernel.io_uring_disabled is {value}: set it to 0 (or 1 and put this user \
             into kernel.io_uring_group)"
        ),
        (Some(libc::EPERM), _) => write!(
            f,
            "a security policy forbids it, usually a container's seccomp profile: allow \
             io_uring_setup, io_uring_enter and io_uring_register there"
        ),
        (Some(libc::ENOSYS), _) => write!(
            f,
            "the kernel was built without io_uring, is older than 5.8, or a seccomp profile hides \
             it: allow io_uring_setup, io_uring_enter and io_uring_register there"
        ),
        (Some(libc::ENOMEM), _) => write!(
            f,
            "locked memory is used up; RLIMIT_MEMLOCK is {}: raise it (`ulimit -l`, systemd \
             LimitMEMLOCK=, docker --ulimit memlock=)",
            limit(facts.memlock)
        ),
        (Some(libc::EMFILE), _) => write!(
            f,
            "file descriptors are used up; RLIMIT_NOFILE is {}: raise it (`ulimit -n`, systemd \
             LimitNOFILE=)",
            limit(facts.files)
        ),
        _ => write!(f, "see io_uring_setup(2)"),
    }
}

fn limit(value: Option<u64>) -> String {
    value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string())
}

impl std::error::Error for UringError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            UringError::Refused { source, .. } => Some(source),
            UringError::Missing { .. } | UringError::Memlock { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_limit_its_value_and_the_remedy() {
        let facts = Facts { disabled: Some(2), memlock: Some(65_536), files: Some(64) };
        let cases: [(i32, &[&str]); 5] = [
            (libc::EPERM, &["kernel.io_uring_disabled is 2", "set it to 0"]),
            (libc::ENOSYS, &["seccomp", "5.8"]),
            (libc::ENOMEM, &["RLIMIT_MEMLOCK is 65536", "raise it"]),
            (libc::EMFILE, &["RLIMIT_NOFILE is 64", "raise it"]),
            (libc::EIO, &["io_uring_setup(2)"]),
        ];
        for (errno, wanted) in cases {
            let source = io::Error::from_raw_os_error(errno);
            let text = UringError::Refused { source, facts: facts.clone() }.to_string();
            for want in wanted {
                assert!(text.contains(want), "{errno}: {text}");
            }
        }
        let allowed = Facts { disabled: Some(0), ..facts };
        let source = io::Error::from_raw_os_error(libc::EPERM);
        let text = UringError::Refused { source, facts: allowed }.to_string();
        assert!(text.contains("seccomp profile"), "{text}");
    }

    #[test]
    fn what_is_missing_is_named_with_the_runtime_that_needs_it() {
        let operations = vec!["READ_FIXED", "multishot POLL_ADD"];
        let text = UringError::Missing { runtime: Runtime::Ring, operations }.to_string();
        let want = "lacks READ_FIXED, multishot POLL_ADD: the runtime ring needs Linux 5.13";
        assert!(text.contains(want), "{text}");
    }

    #[test]
    fn operations_are_named_once() {
        let mut codes: Vec<u8> = URING_OPERATIONS.iter().map(|(code, _)| *code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), URING_OPERATIONS.len());
    }

    #[test]
    fn here_it_works() {
        for runtime in Runtime::ALL {
            check(runtime).expect("the tests need io_uring");
        }
    }
}
