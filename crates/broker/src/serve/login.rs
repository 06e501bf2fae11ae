//! Logins and logouts.

use super::Here;
use crate::answer::{self, Answer};
use crate::command::{Login, Secret};
use crate::frame::{Eviction, Request};
use crate::protocol;
use crate::session::{LoggedIn, Session};
use corelog::consumers::ClientId;

/// A login. One on a connection that has one already shows the password again and changes nothing.
pub(super) fn login(here: &Here, session: &mut Session, request: &Request, body: &[u8]) -> Answer {
    let Ok(login) = Login::decode(body) else { return Answer::Evict(Eviction::Malformed) };
    let Login { version, sdk, sdk_version, secret } = login;
    if !protocol::is_spoken(version) {
        let (max, min) = (protocol::VERSION, protocol::VERSION_MIN);
        return Answer::Evict(Eviction::Version { max, min });
    }
    match secret {
        None => return Answer::Evict(Eviction::Malformed),
        Some(Secret::Token) => return Answer::Evict(Eviction::Token),
        Some(Secret::Password { user, password }) => {
            if !here.shared.password.admits(user, password) {
                here.shared.note(format_args!("{}: login refused", session.peer));
                return Answer::Evict(Eviction::Credentials);
            }
        }
    }
    let session_number = match &session.login {
        Some(login) => login.session,
        None => {
            let client = ClientId(request.client);
            let number = session.seat.log_in(client);
            session.login = Some(LoggedIn::new(client, number));
            here.shared.note(format_args!("{}: {sdk:?} {sdk_version:?} logged in", session.peer));
            number
        }
    };
    Answer::plain(answer::login(session_number))
}

/// A logout, answered also where nobody is logged in.
pub(super) fn logout(session: &mut Session) -> Answer {
    session.log_out();
    Answer::empty()
}
