use super::*;

/// The words of a command line, separated by `|`, and what is recorded of them.
const MASKED: &[(&str, &str)] = &[
    ("train|--password|hunter2|x", "train --password *** x"),
    ("train|--password=hunter2|x", "train --password=*** x"),
    (
        "train|--password=two words, and more",
        "train --password=***",
    ),
    ("env|PASSWORD=hunter2|train", "env PASSWORD=*** train"),
    ("env|MYSQL_PWD=hunter2", "env MYSQL_PWD=***"),
    (
        "env|HF_TOKEN=hf_abc|PGPASSWORD=x",
        "env HF_TOKEN=*** PGPASSWORD=***",
    ),
    ("train|--token|hf_abc", "train --token ***"),
    ("train|--hf-token=hf_abc", "train --hf-token=***"),
    ("train|--hfToken=hf_abc", "train --hfToken=***"),
    ("train|-token|hf_abc", "train -token ***"),
    ("train|--secret|s", "train --secret ***"),
    ("train|--client-secret|s", "train --client-secret ***"),
    ("train|--api-key|k", "train --api-key ***"),
    ("train|--api_key=k", "train --api_key=***"),
    ("train|--apikey=k", "train --apikey=***"),
    ("train|--openaiApiKey=k", "train --openaiApiKey=***"),
    ("env|WANDB_API_KEY=k", "env WANDB_API_KEY=***"),
    (
        "env|AWS_SECRET_ACCESS_KEY=k|AWS_ACCESS_KEY_ID=i",
        "env AWS_SECRET_ACCESS_KEY=*** AWS_ACCESS_KEY_ID=***",
    ),
    ("x|--access-key|k", "x --access-key ***"),
    (
        "x|--credentials|c|--credential=d",
        "x --credentials *** --credential=***",
    ),
    ("x|--auth|user:pw", "x --auth ***"),
    ("x|--basic-auth=user:pw", "x --basic-auth=***"),
    ("x|--authorization|Bearer abc", "x --authorization ***"),
    (
        "x|--passwd|p|--passphrase|q",
        "x --passwd *** --passphrase ***",
    ),
    ("x|--pwd=p", "x --pwd=***"),
    (
        "x|--private-key|k|--ssh.privateKey=k",
        "x --private-key *** --ssh.privateKey=***",
    ),
    (
        "train|+logger.wandb.api_key=k",
        "train +logger.wandb.api_key=***",
    ),
    (
        "train|--dsn|postgres://me:pw@db:5432/x",
        "train --dsn postgres://me:***@db:5432/x",
    ),
    (
        "x|--store=s3://id:p@w@host/bucket",
        "x --store=s3://id:***@host/bucket",
    ),
    (
        "git|clone|https://ghp_abc@github.com/a/b",
        "git clone https://***@github.com/a/b",
    ),
    (
        "x|https://host/get?token=abc&step=5",
        "x 'https://host/get?token=***&step=5'",
    ),
    (
        "curl|-H|Authorization: Bearer abc.def",
        "curl -H 'Authorization: Bearer ***'",
    ),
    (
        "curl|-H|authorization: Basic dXNlcjpwdw==",
        "curl -H 'authorization: Basic ***'",
    ),
    ("curl|-HX-Api-Key: k", "curl '-HX-Api-Key: ***'"),
    (
        "echo|Authorization:|Bearer|abc|x",
        "echo Authorization: Bearer *** x",
    ),
    (
        "bash|-c|export HF_TOKEN=abc; train --password pw --lr 1",
        "bash -c 'export HF_TOKEN=***; train --password *** --lr 1'",
    ),
    (
        "bash|-lc|HF_TOKEN=abc train --lr 1",
        "bash -lc 'HF_TOKEN=*** train --lr 1'",
    ),
    (
        "python|-c|login(token='abc d', retries=3)",
        r"python -c 'login(token='\''***'\'', retries=3)'",
    ),
    (
        "python|-c|os.environ[\"HF_TOKEN\"] = \"abc\"; run()",
        "python -c 'os.environ[\"HF_TOKEN\"] = \"***\"; run()'",
    ),
    (
        "x|--json={\"user\": \"me\", \"password\": \"pw\", \"n\": 1}",
        "x '--json={\"user\": \"me\", \"password\": \"***\", \"n\": 1}'",
    ),
    (
        "x|-DPASSWORD=pw|-e|DB_PASSWORD=pw",
        "x -DPASSWORD=*** -e DB_PASSWORD=***",
    ),
    ("x|--pass|p|--db-pass=q", "x --pass *** --db-pass=***"),
    (
        "env|SMTP_PASS=p|PassWord=q",
        "env SMTP_PASS=*** PassWord=***",
    ),
    (
        "x|--PassWord|p|--dbPassWord=q",
        "x --PassWord *** --dbPassWord=***",
    ),
    ("curl|--cookie|id=abc; n=1|url", "curl --cookie *** url"),
    (
        "curl|-H|Cookie: id=abc; n=1|-H|Set-Cookie: a=b; Path=/",
        "curl -H 'Cookie: ***' -H 'Set-Cookie: ***'",
    ),
    ("x|--ssh-key|k|--sshkey=k", "x --ssh-key *** --sshkey=***"),
    (
        "x|--apitoken|t|--my-apitoken=t",
        "x --apitoken *** --my-apitoken=***",
    ),
    (
        "x|--secretkey=k|--secret-key|k",
        "x --secretkey=*** --secret-key ***",
    ),
    (
        "env|OPENAI_KEY=k|S3_KEY=k|-DDEEPL_KEY=k",
        "env OPENAI_KEY=*** S3_KEY=*** -DDEEPL_KEY=***",
    ),
    (
        "python|-c|os.environ[\"DEEPL_KEY\"] = \"abc\"; f(DEEPL_KEY)",
        "python -c 'os.environ[\"DEEPL_KEY\"] = \"***\"; f(DEEPL_KEY)'",
    ),
];

/// What looks similar and stays.
const KEPT: &[&str] = &[
    "train --tokenizer gpt2",
    "train --max-tokens 5",
    "train --author x --authors=y --authority z",
    "train --pad-token 0 --eos_token=2 --loss-per-token 1",
    "train --token-dropout 0.1 --tokens-per-batch 4096",
    "train --password-file /run/secrets/db --token-path=/x",
    "train --auth-type basic --auth-url=host:5000",
    "env SSH_AUTH_SOCK=/tmp/x XAUTHORITY=/x/.Xauthority x",
    "train --key=value --keyword x --monkey y --public-key z",
    "train --use-auth --lr 0.1",
    "train --use_auth_token True --token=",
    "train secret.py token password",
    "train --num-passes 3 --pass-rate 0.5 --passthrough x --no-bypass y --bypass z --pass@1 4",
    "train --one-pass 2 --forward_pass=3 --lowpass 4 --low-pass 5 --compass-dir d",
    "train --key_size 64 --key-dim 64 --num-key-value-heads 8 --keyboard x --keys a,b --turkey=1",
    "train --sort-key length --group_key user --image-key jpg --key k model.key=v monkeys=2",
    "env SORT_KEY=x PUBLIC_KEY=y CACHE_KEY=z KEY=a HOTKEY=b KEY_DIM=64 x",
    "wget --no-cookies https://host/a --cookie-jar jar.txt --cookie-file=c.txt --cookiecutter x",
    "python -m cookies --no-password x",
    "train --secretary x --compass w --passes 3",
    "train configs/token.yaml checkpoints/auth/last.ckpt",
    "train --lr=1e-3 --batch-size 64 a@b.c",
    "git clone ssh://git@host/a/b",
    "x https://host:8080/a/b",
    "x --url=host/get?tokens=5",
    "x Bearer of news",
];

#[test]
fn values_of_words_that_name_a_secret_are_masked() {
    let shown = |words: &str| shown(words.split('|').map(str::to_owned));
    for (words, expected) in MASKED {
        assert_eq!(shown(words), *expected, "{words}");
    }
}

#[test]
fn other_words_stay() {
    for line in KEPT {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let quoted: Vec<_> = words.iter().map(|word| quoted(OsStr::new(word))).collect();
        assert_eq!(shown(words.into_iter()), quoted.join(" "));
    }
}

#[test]
fn words_are_quoted_as_a_shell_needs_them() {
    assert_eq!(quoted(OsStr::new("train.py")), "train.py");
    assert_eq!(quoted(OsStr::new("--lr=1e-3")), "--lr=1e-3");
    assert_eq!(quoted(OsStr::new("")), "''");
    assert_eq!(quoted(OsStr::new("it's here")), r"'it'\''s here'");
}
