//! Commands, one per line. Each is answered with one line: `ok`, a JSON object, or `error: …`.
//!
//! ```text
//! delay OPERATIONS MS [from K] [for N]
//! fail OPERATIONS ERRNO [from K] [for N]
//! freeze OPERATIONS [from K] [for N]
//! short OPERATIONS BYTES [from K] [for N]
//! thaw                    removes all freezes
//! heal                    removes all rules
//! counts                  {"write": {"came": 3, "passed": 2, "held": 1}, …}
//! wait OPERATIONS N       until N such requests have come, since the disk was mounted
//! held OPERATIONS N       until N such requests are held
//! ```
//!
//! OPERATIONS are names between commas, see `Operations::parse`. ERRNO is a name of `ERRORS`. K and N count
//! such requests from when the rule is added; the default is all.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use crate::operation::{Operation, Operations};
use crate::rules::{Action, Rule, Rules};

/// Errors that a rule can give.
const ERRORS: &[(&str, i32)] = &[
    ("EACCES", libc::EACCES),
    ("EDQUOT", libc::EDQUOT),
    ("EINTR", libc::EINTR),
    ("EIO", libc::EIO),
    ("ENOSPC", libc::ENOSPC),
    ("ENOSYS", libc::ENOSYS),
    ("EOPNOTSUPP", libc::EOPNOTSUPP),
    ("EROFS", libc::EROFS),
    ("ESTALE", libc::ESTALE),
    ("ETIMEDOUT", libc::ETIMEDOUT),
];

/// Answers every connection, each on a separate thread, until the process ends.
pub fn serve(listener: &UnixListener, rules: &Arc<Rules>) {
    for stream in listener.incoming().flatten() {
        let rules = Arc::clone(rules);
        std::thread::spawn(move || {
            // A closed connection needs no answer.
            let _ = answer_all(stream, &rules);
        });
    }
}

fn answer_all(stream: UnixStream, rules: &Rules) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let answer = carry_out(&line?, rules).unwrap_or_else(|error| format!("error: {error}"));
        answers.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// Carries out one command.
fn carry_out(line: &str, rules: &Rules) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["thaw"] => rules.remove(|rule| rule.action == Action::Freeze),
        ["heal"] => rules.remove(|_| true),
        ["counts"] => return Ok(counts(rules)),
        ["wait", operations, number] => {
            let number = parse(number)?;
            rules.wait(Operations::parse(operations)?, |sum| sum.came >= number);
        }
        ["held", operations, number] => {
            let number = parse(number)?;
            rules.wait(Operations::parse(operations)?, |sum| sum.held >= number);
        }
        ["freeze", operations, ref range @ ..] => {
            rules.add(rule(Action::Freeze, operations, range)?);
        }
        [
            action @ ("delay" | "fail" | "short"),
            operations,
            value,
            ref range @ ..,
        ] => {
            let action = match action {
                "delay" => Action::Delay(Duration::from_millis(parse(value)?)),
                "fail" => Action::Fail(errno(value)?),
                _ => {
                    Action::Short(u32::try_from(parse(value)?).map_err(|error| error.to_string())?)
                }
            };
            rules.add(rule(action, operations, range)?);
        }
        _ => return Err(format!("no such command: {line}")),
    }
    Ok("ok".to_owned())
}

fn rule(action: Action, operations: &str, range: &[&str]) -> Result<Rule, String> {
    let (from, count) = match *range {
        [] => (1, u64::MAX),
        ["from", from] => (parse(from)?, u64::MAX),
        ["for", count] => (1, parse(count)?),
        ["from", from, "for", count] => (parse(from)?, parse(count)?),
        _ => return Err("a range is [from K] [for N]".to_owned()),
    };
    Ok(Rule {
        action,
        operations: Operations::parse(operations)?,
        from,
        count,
    })
}

fn parse(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

fn errno(name: &str) -> Result<i32, String> {
    let found = ERRORS.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, errno)| *errno)
        .ok_or_else(|| format!("no error is named {name}"))
}

fn counts(rules: &Rules) -> String {
    let rows = rules.counts();
    let object: serde_json::Map<_, _> = Operation::ALL
        .iter()
        .map(|&operation| {
            let count = rows[operation as usize];
            let row = serde_json::json!({
                "came": count.came, "passed": count.passed, "held": count.held,
            });
            (operation.name().to_owned(), row)
        })
        .collect();
    serde_json::Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_set_and_remove_rules() {
        let rules = Rules::default();
        let done = |line| carry_out(line, &rules);
        assert_eq!(
            done("fail write,fsync ENOSPC from 2 for 1"),
            Ok("ok".to_owned())
        );
        assert_eq!(rules.pass(Operation::Write), Ok(u32::MAX));
        assert_eq!(rules.pass(Operation::Fsync), Err(libc::ENOSPC));
        assert_eq!(rules.pass(Operation::Write), Ok(u32::MAX));
        assert_eq!(done("fail all EIO"), Ok("ok".to_owned()));
        assert_eq!(rules.pass(Operation::Create), Err(libc::EIO));
        assert_eq!(done("heal"), Ok("ok".to_owned()));
        assert_eq!(rules.pass(Operation::Create), Ok(u32::MAX));
        assert!(
            done("counts")
                .unwrap()
                .contains(r#""create":{"came":2,"held":0,"passed":2}"#)
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let rules = Rules::default();
        for line in [
            "",
            "fail write",
            "fail write ENOSUCH",
            "freeze writes",
            "delay write soon",
            "delay write 1 for",
        ] {
            assert!(carry_out(line, &rules).is_err(), "{line}");
        }
    }
}
