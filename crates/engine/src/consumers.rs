//! Who reads, and how far it is: stored offsets, and the members of consumer groups.

pub use crate::groups::{
    Assignment, ClientId, GroupDetails, GroupId, Groups, Member, MemberInfo, MemberPoll,
    MemberStore,
};
pub use corelog_format::ConsumerKind;
pub use corelog_storage::ConsumerKey;
