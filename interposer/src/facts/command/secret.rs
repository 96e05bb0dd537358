//! Which names of options, variables and keys name a secret.

/// Parts of names that always name a secret, also at the end of a longer part (`mysqlpassword`).
const SECRET: [&str; 17] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "accesstoken",
    "authtoken",
    "apitoken",
    "secretkey",
    "sshkey",
    "signingkey",
];
/// Two parts that together name a secret.
const SECRET_PAIRS: [[&str; 2]; 13] = [
    ["api", "key"],
    ["api", "keys"],
    ["access", "key"],
    ["access", "keys"],
    ["private", "key"],
    ["private", "keys"],
    ["ssh", "key"],
    ["signing", "key"],
    ["encryption", "key"],
    ["wandb", "key"],
    ["openai", "key"],
    ["pass", "word"],
    ["pass", "phrase"],
];
/// Parts that name a secret and are not parts of longer ones (`author`).
const SECRET_WORDS: [&str; 2] = ["auth", "authorization"];
/// Parts that name a secret at the end of a name alone.
const SECRET_ENDS: [&str; 5] = ["token", "pwd", "pass", "cookie", "cookies"];
/// Last parts of names, and the parts before them with which they are no secret: a text's tokens, passes over data,
/// keys of data.
const ORDINARY: [(&str, &[&str]); 3] = [
    (
        "token",
        &[
            "pad", "eos", "bos", "unk", "sep", "cls", "mask", "start", "stop", "end", "special",
            "image", "video", "audio", "per", "first", "last", "next", "forced",
        ],
    ),
    (
        "pass",
        &[
            "one",
            "two",
            "three",
            "single",
            "double",
            "dual",
            "multi",
            "first",
            "second",
            "third",
            "last",
            "next",
            "final",
            "forward",
            "backward",
            "num",
            "n",
            "per",
            "low",
            "high",
            "band",
            "all",
            "full",
            "extra",
            "warmup",
            "train",
            "eval",
            "test",
            "render",
            "by",
            "graph",
            "fusion",
            "compiler",
            "optimizer",
            "optimization",
        ],
    ),
    (
        "key",
        &[
            "public",
            "sort",
            "primary",
            "foreign",
            "partition",
            "group",
            "cache",
            "index",
            "data",
            "dataset",
            "batch",
            "image",
            "text",
            "audio",
            "label",
            "target",
            "input",
            "output",
            "feature",
            "state",
            "dict",
            "model",
            "metric",
            "loss",
            "shard",
            "query",
            "hash",
            "map",
        ],
    ),
];
/// Last parts of names that describe a secret and do not have its value.
const DESCRIBES: [&str; 31] = [
    "file",
    "jar",
    "path",
    "dir",
    "directory",
    "folder",
    "name",
    "env",
    "var",
    "url",
    "uri",
    "endpoint",
    "host",
    "server",
    "port",
    "sock",
    "socket",
    "type",
    "mode",
    "method",
    "scheme",
    "backend",
    "provider",
    "policy",
    "class",
    "length",
    "size",
    "count",
    "ttl",
    "timeout",
    "stdin",
];
/// Whether the name of an option, a variable or a key names a secret.
pub(super) fn names_a_secret(name: &str) -> bool {
    let parts = parts(name);
    let Some(last) = parts.last() else {
        return false;
    };
    if DESCRIBES.contains(&last.as_str()) || parts[0] == "no" {
        return false;
    }
    let before_last = parts.len().checked_sub(2).and_then(|at| parts.get(at));
    let is_ordinary = before_last.is_some_and(|before| {
        let mut ordinary = ORDINARY.iter().filter(|(of, _)| last == of);
        ordinary.any(|(_, parts)| parts.contains(&before.as_str()))
    });
    let has = |part: &String| {
        SECRET.iter().any(|secret| part.ends_with(secret)) || SECRET_WORDS.contains(&part.as_str())
    };
    let is_pair = |pair: &[String]| SECRET_PAIRS.iter().any(|secret| pair == secret.as_slice());
    let is_end = SECRET_ENDS.contains(&last.as_str()) || is_key_variable(name);
    parts.iter().any(has) || parts.windows(2).any(is_pair) || (is_end && !is_ordinary)
}

/// Whether a name is one of a variable such as `OPENAI_KEY`, in capitals.
fn is_key_variable(name: &str) -> bool {
    let variable = name.rsplit(['.', '-']).next().unwrap_or_default();
    let service = variable.strip_suffix("_KEY").unwrap_or_default();
    !service.is_empty() && !service.contains(char::is_lowercase)
}

/// The parts of a name, in lower case: `--hf-token`, `HF_TOKEN`, `hfToken` and `hf.token` have the same two.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = name.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let is_next_lower = chars.peek().is_some_and(|c| c.is_lowercase());
        let begins =
            c.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && is_next_lower);
        if begins || "-_.".contains(c) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| !"-_.".contains(c)) {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts.retain(|part| !part.is_empty());
    parts
}
