//! Logins and logouts.

use super::Here;
use crate::answer::{self, Answer};
use crate::command::{self, Secret};
use crate::frame::{Eviction, Request};
use crate::protocol;
use crate::scrape::Login;
use crate::session::{LoggedIn, Session};
use crate::status::Status;
use corelog::consumers::ClientId;

/// A login. One on a connection that has one already shows the password again and changes nothing.
pub(super) async fn login(
    here: &Here,
    session: &mut Session,
    request: &Request,
    body: &[u8],
) -> Answer {
    let answer = checked(here, session, request, body).await;
    here.counters().login(match &answer {
        Answer::Evict(_) => Login::Refused,
        Answer::Reply { body, .. } if body.failure.is_some() => Login::Busy,
        Answer::Reply { .. } => Login::Done,
    });
    answer
}

async fn checked(here: &Here, session: &mut Session, request: &Request, body: &[u8]) -> Answer {
    let Ok(login) = command::Login::decode(body) else { return Answer::Evict(Eviction::Malformed) };
    let command::Login { version, sdk, sdk_version, secret } = login;
    if !protocol::is_spoken(version) {
        let (max, min) = (protocol::VERSION, protocol::VERSION_MIN);
        return Answer::Evict(Eviction::Version { max, min });
    }
    let events = &here.shared.events;
    match secret {
        None => return Answer::Evict(Eviction::Malformed),
        Some(Secret::Token) => return Answer::Evict(Eviction::Token),
        Some(Secret::Password { user, password }) => {
            match here.shared.gate.admits(session.peer.ip(), user, password).await {
                Ok(true) => {}
                Ok(false) => {
                    events.login_refused(session.peer, "wrong user or password");
                    return Answer::Evict(Eviction::Credentials);
                }
                Err(why) => {
                    events.login_refused(session.peer, why.why());
                    return Answer::failed(Status::NOT_ACCEPTED);
                }
            }
        }
    }
    let session_number = match &session.login {
        Some(login) => login.session,
        None => {
            let client = ClientId(request.client);
            let number = session.seat.log_in(client);
            session.login = Some(LoggedIn::new(client, number));
            events.logged_in(session.peer, sdk, sdk_version);
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
