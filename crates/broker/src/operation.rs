//! What a client can ask for, by the numbers of the wire.

/// Declares an enum of the wire's numbers with its lookup.
macro_rules! numbers {
    (
        $(#[$doc:meta])*
        $name:ident: $number:ty { $($(#[$each:meta])* $variant:ident = $value:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr($number)]
        pub(crate) enum $name { $($(#[$each])* $variant = $value,)+ }

        impl $name {
            /// All of them, with their names.
            pub(crate) const ALL: &[($name, &'static str)] =
                &[$(($name::$variant, stringify!($variant)),)+];

            /// The one with this number.
            pub(crate) const fn of(number: $number) -> Option<$name> {
                match number {
                    $($value => Some($name::$variant),)+
                    _ => None,
                }
            }

        }
    };
}

numbers! {
    /// Byte 176 of a request.
    Operation: u8 {
        /// A login.
        Register = 1,
        /// A question: see [`Question`].
        NonReplicated = 2,
        Logout = 3,
        CreateStream = 128,
        UpdateStream = 129,
        DeleteStream = 130,
        PurgeStream = 131,
        CreateTopic = 132,
        UpdateTopic = 133,
        DeleteTopic = 134,
        PurgeTopic = 135,
        CreatePartitions = 136,
        DeletePartitions = 137,
        DeleteSegments = 138,
        CreateConsumerGroup = 139,
        DeleteConsumerGroup = 140,
        CreateUser = 141,
        UpdateUser = 142,
        DeleteUser = 143,
        ChangePassword = 144,
        UpdatePermissions = 145,
        CreatePersonalAccessToken = 146,
        DeletePersonalAccessToken = 147,
        JoinConsumerGroup = 148,
        LeaveConsumerGroup = 149,
        SendMessages = 160,
        StoreConsumerOffset = 161,
        DeleteConsumerOffset = 162,
    }
}

numbers! {
    /// Bytes 196..200 of a request that is not replicated.
    Question: u32 {
        Ping = 1,
        GetStats = 10,
        GetSnapshot = 11,
        GetClusterMetadata = 12,
        DescribeOptions = 13,
        GetMe = 20,
        GetClient = 21,
        GetClients = 22,
        GetUser = 31,
        GetUsers = 32,
        /// A login of an older protocol.
        LegacyLogin = 38,
        /// A login with a token of an older protocol.
        LegacyTokenLogin = 44,
        GetPersonalAccessTokens = 41,
        PollMessages = 100,
        FlushUnsavedBuffer = 102,
        GetConsumerOffset = 120,
        GetStream = 200,
        GetStreams = 201,
        GetTopic = 300,
        GetTopics = 301,
        GetConsumerGroup = 600,
        GetConsumerGroups = 601,
        SyncConsumerGroup = 606,
    }
}

impl Operation {
    /// The byte by which the reply names it: three are prepared as others.
    pub(crate) const fn prepared(self) -> u8 {
        match self {
            Operation::CreateTopic => 64,
            Operation::CreatePartitions => 65,
            Operation::DeleteSegments => 68,
            other => other as u8,
        }
    }

    /// True for what only an administrator of more than one user would ask.
    pub(crate) const fn is_of_users(self) -> bool {
        matches!(self as u8, 141..=147)
    }
}

/// Codes of operations, where one is asked as a question: those are refused by name.
pub(crate) const fn is_replicated_code(code: u32) -> bool {
    matches!(
        code,
        33..=37 | 39 | 40 | 42 | 43 | 45 | 101 | 121 | 122 | 202..=205 | 302..=305 | 402 | 403
            | 503 | 602..=605
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_both_ways() {
        for number in 0..=255 {
            let there = Operation::of(number).map(|operation| operation as u8);
            assert!(there.is_none_or(|there| there == number), "{number}");
        }
        assert_eq!(Question::of(606), Some(Question::SyncConsumerGroup));
        assert_eq!(Operation::of(0), None);
        assert_eq!(Operation::of(64), None, "those are of the server alone");
    }
}
