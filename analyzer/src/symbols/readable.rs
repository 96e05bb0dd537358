//! Short names of functions.

/// Longer names lose their template arguments.
const LONG_NAME: usize = 80;

/// The short name of a function.
pub(super) fn readable(name: &str) -> String {
    let (name, distance) = apart(name);
    let name = without_parameters(name);
    if name.chars().count() <= LONG_NAME
        || ["operator<", "operator>", "->"]
            .iter()
            .any(|sign| name.contains(sign))
    {
        return format!("{name}{distance}");
    }
    let (mut out, mut depth) = (String::new(), 0_u32);
    // Rust's `<Type as Trait>::function`: the function is not useful without the type.
    let mut is_in_type = name.starts_with('<');
    for (at, c) in name.char_indices() {
        match c {
            '<' if at == 0 => out.push(c),
            '>' if depth == 0 && is_in_type => {
                is_in_type = false;
                out.push(c);
            }
            '<' => {
                if depth == 0 {
                    out.push_str("<…>");
                }
                depth += 1;
            }
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out + distance
}

/// A name, and its distance from the function's start (`+0x1c`) if it has one.
fn apart(name: &str) -> (&str, &str) {
    let at = name.rfind("+0x").filter(|at| {
        let digits = &name[at + 3..];
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    name.split_at(at.unwrap_or(name.len()))
}

/// Whether more of the name follows the parameters at the start of `rest`.
fn is_continued(rest: &str) -> bool {
    let mut depth = 0_u32;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => {
                let after = &rest[at + 1..];
                return after
                    .strip_prefix(" const")
                    .unwrap_or(after)
                    .starts_with("::");
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    false
}

/// A C++ function's name without its parameters, which are not very useful and can be very long.
fn without_parameters(name: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in name.char_indices() {
        let before = &name[..at];
        match c {
            '<' | '>' if before.ends_with("operator") || before.ends_with("operator<") => {
                return name;
            }
            '>' if before.ends_with('-') => {}
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && at > 0 => {
                let rest = &name[at..];
                let part_of_name = rest.starts_with("(anonymous namespace)")
                    || before.ends_with("operator")
                    || before.ends_with("decltype")
                    || before.ends_with(' ');
                if !part_of_name {
                    // A lambda or local class follows the parameters of its function.
                    return if is_continued(rest) { name } else { before };
                }
            }
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_and_names_stay() {
        for (full, short) in [
            ("main", "main"),
            ("at::empty(c10::ArrayRef<long>, int)", "at::empty"),
            ("void f<g(int)>(int) const", "void f<g(int)>"),
            (
                "(anonymous namespace)::grow(int)",
                "(anonymous namespace)::grow",
            ),
            (
                "a::(anonymous namespace)::b(int)",
                "a::(anonymous namespace)::b",
            ),
            ("T::operator()(int) const", "T::operator()"),
            (
                "f(int)::{lambda()#1}::operator()() const",
                "f(int)::{lambda()#1}::operator()() const",
            ),
            ("a::operator<(int)", "a::operator<(int)"),
            (
                "A::find(b::(anonymous namespace)::Key const&, void (*)(int))",
                "A::find",
            ),
            ("A::f(int) const::g::h()", "A::f(int) const::g::h()"),
        ] {
            assert_eq!(without_parameters(full), short);
        }
    }

    #[test]
    fn only_long_names_lose_their_template_arguments() {
        assert_eq!(
            readable("std::vector<int>::push_back(int)"),
            "std::vector<int>::push_back"
        );
        let long = format!(
            "c10::wrap_<f<{}>, (int)3>::call(int)",
            "at::Tensor, ".repeat(20)
        );
        assert_eq!(readable(&long), "c10::wrap_<…>::call");
        let rust = format!("<Guard<{}> as Payload>::take<u8>", "String, ".repeat(20));
        assert_eq!(readable(&rust), "<Guard<…> as Payload>::take<…>");
    }

    #[test]
    fn the_distance_from_the_start_stays_at_the_end() {
        assert_eq!(readable("at::empty(int)+0x1c"), "at::empty+0x1c");
        assert_eq!(readable("operator+(int)+0x0"), "operator++0x0");
        assert_eq!(readable("f+0xtwo"), "f+0xtwo");
        let long = format!("f<{}>(int)+0x1c", "at::Tensor, ".repeat(20));
        assert_eq!(readable(&long), "f<…>+0x1c");
    }
}
