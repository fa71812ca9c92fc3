//! Which operation a path and a method name.

use super::answer::Answer;
use crate::name::BoardId;
use placet_net::percent_decoded_bytes;

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Boards,
    Describe(BoardId),
    Open(BoardId),
    Delete(BoardId),
    Regions(BoardId),
    Declare(BoardId, String),
    ReadLevel(BoardId, String),
    Write(BoardId, String),
    ReadPremise(BoardId, String),
    Set(BoardId, String),
    Changes(BoardId),
    Acknowledge(BoardId),
    Agents(BoardId),
    Register(BoardId, String),
    Notifications(BoardId, String),
    Outcome(BoardId),
    Abort(BoardId),
    Reopen(BoardId),
    Tail(BoardId),
    Export(BoardId),
    Decisions(BoardId),
}

impl Route {
    /// The operation at `path`, which begins with `/boards`. The path is split before it is decoded, so that a name may
    /// hold a slash.
    pub(super) fn find(path: &str, method: &str) -> Result<Self, Answer> {
        let no_such_route = || Answer::error(404, "no_such_route", &format!("no operation answers {path}"));
        let mut segments = path.strip_prefix('/').ok_or_else(no_such_route)?.split('/');
        if segments.next() != Some("boards") {
            return Err(no_such_route());
        }
        let rest: Vec<&str> = segments.collect();
        let name = |segment: &str| decoded(segment).filter(|name| !name.is_empty()).ok_or_else(no_such_route);
        let board = |segment: &str| -> Result<BoardId, Answer> {
            BoardId::new(name(segment)?).map_err(|_| Answer::error(404, "unknown_board", "no board has such a name"))
        };
        type Make = fn(BoardId, String) -> Route;
        let (methods, id, of): (&[(&str, Make)], &str, &str) = match rest.as_slice() {
            [] => {
                return if method == "GET" { Ok(Route::Boards) } else { Err(wrong_method(method, &["GET"])) };
            }
            [id] => (
                &[
                    ("DELETE", |id, _| Route::Delete(id)),
                    ("GET", |id, _| Route::Describe(id)),
                    ("PUT", |id, _| Route::Open(id)),
                ],
                id,
                "",
            ),
            [id, "regions"] => (&[("GET", |id, _| Route::Regions(id))], id, ""),
            [id, "regions", of] => (&[("PUT", Route::Declare)], id, of),
            [id, "levels", of] => (&[("GET", Route::ReadLevel), ("POST", Route::Write)], id, of),
            [id, "premises", of] => (&[("GET", Route::ReadPremise), ("PUT", Route::Set)], id, of),
            [id, "changes"] => (&[("GET", |id, _| Route::Changes(id))], id, ""),
            [id, "acknowledgements"] => (&[("POST", |id, _| Route::Acknowledge(id))], id, ""),
            [id, "agents"] => (&[("GET", |id, _| Route::Agents(id))], id, ""),
            [id, "agents", of] => (&[("PUT", Route::Register)], id, of),
            [id, "agents", of, "notifications"] => (&[("GET", Route::Notifications)], id, of),
            [id, "outcome"] => (&[("GET", |id, _| Route::Outcome(id))], id, ""),
            [id, "abort"] => (&[("POST", |id, _| Route::Abort(id))], id, ""),
            [id, "reopen"] => (&[("POST", |id, _| Route::Reopen(id))], id, ""),
            [id, "tail"] => (&[("GET", |id, _| Route::Tail(id))], id, ""),
            [id, "export"] => (&[("GET", |id, _| Route::Export(id))], id, ""),
            [id, "decisions"] => (&[("GET", |id, _| Route::Decisions(id))], id, ""),
            _ => return Err(no_such_route()),
        };
        // Paths that take a name of a region or an agent need one.
        let takes_name = rest.len() > 2;
        let of = if takes_name { name(of)? } else { String::new() };
        name(id)?;
        let Some((_, make)) = methods.iter().find(|(known, _)| known.eq_ignore_ascii_case(method)) else {
            let allowed: Vec<&str> = methods.iter().map(|(known, _)| *known).collect();
            return Err(wrong_method(method, &allowed));
        };
        Ok(make(board(id)?, of))
    }
}

fn wrong_method(method: &str, allowed: &[&str]) -> Answer {
    let allowed = allowed.join(", ");
    let mut answer = Answer::error(405, "wrong_method", &format!("{method} is not taken here, but {allowed}"));
    answer.allow = Some(allowed);
    answer
}

/// A percent-encoded segment as text; nothing where it is no UTF-8.
fn decoded(segment: &str) -> Option<String> {
    String::from_utf8(percent_decoded_bytes(segment).into_owned()).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_name_is_decoded_after_the_path_is_split() {
        let route = Route::find("/boards/tenant%2F44%2071%C3%A9/levels/a%2Fb", "GET").unwrap();
        assert_eq!(route, Route::ReadLevel(BoardId::new("tenant/44 71é").unwrap(), "a/b".into()));
        assert_eq!(Route::find("/boards/a/regions", "get").unwrap(), Route::Regions(BoardId::new("a").unwrap()));
    }

    #[test]
    fn what_no_operation_answers_is_told_so() {
        for path in
            ["", "/", "/board/a/regions", "/boards/a/regions/", "/boards//regions", "/boards/a/levels/", "/boards/a/x"]
        {
            assert_eq!(Route::find(path, "GET").unwrap_err().status, 404, "{path}");
        }
        for method in ["HEAD", "OPTIONS", "DELETE"] {
            let answer = Route::find("/boards/a/levels/b", method).unwrap_err();
            assert_eq!((answer.status, answer.allow.as_deref()), (405, Some("GET, POST")));
        }
    }
}
