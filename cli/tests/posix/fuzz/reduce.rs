//! Reduces a script: removes calls, then simplifies arguments, as long as a property of it holds.

/// Returns a script with the property that has no call too many. `script` has the property.
pub(crate) fn reduce(script: Vec<String>, mut holds: impl FnMut(&[String]) -> bool) -> Vec<String> {
    let mut script = remove_calls(script, &mut holds);
    loop {
        let before = script.clone();
        for at in 0..script.len() {
            simplify(&mut script, at, &mut holds);
        }
        script = remove_calls(script, &mut holds);
        if script == before {
            return script;
        }
    }
}

/// Removes ever smaller ranges of calls.
fn remove_calls(mut script: Vec<String>, holds: &mut impl FnMut(&[String]) -> bool) -> Vec<String> {
    let mut length = script.len() / 2;
    while length > 0 {
        let mut end = script.len();
        while end > 0 {
            let start = end.saturating_sub(length);
            let shorter = [&script[..start], &script[end..]].concat();
            if !shorter.is_empty() && holds(&shorter) {
                script = shorter;
            }
            end = start;
        }
        length /= 2;
    }
    script
}

/// Replaces each argument of a call by the first simpler one with which the property holds.
fn simplify(script: &mut Vec<String>, at: usize, holds: &mut impl FnMut(&[String]) -> bool) {
    let mut argument = 0;
    while let Some(simpler) = simpler_calls(&script[at], argument) {
        for call in simpler {
            let mut changed = script.clone();
            changed[at] = call;
            if holds(&changed) {
                *script = changed;
                break;
            }
        }
        argument += 1;
    }
}

/// Returns the call with simpler forms of an argument, the simplest first, or nothing if it has no
/// such argument.
fn simpler_calls(call: &str, argument: usize) -> Option<Vec<String>> {
    let (start, rest) = call.split_once('(')?;
    let words: Vec<_> = rest.strip_suffix(')')?.split(", ").collect();
    let simpler = simpler_words(words.get(argument)?);
    let with = |word: String| {
        let mut words: Vec<_> = words.iter().map(|&it| it.to_owned()).collect();
        words[argument] = word;
        format!("{start}({})", words.join(", "))
    };
    Some(simpler.into_iter().map(with).collect())
}

fn simpler_words(word: &str) -> Vec<String> {
    let flags: Vec<_> = word.split('|').collect();
    if flags.len() > 1 {
        let without = |at| {
            let rest = flags
                .iter()
                .enumerate()
                .filter(|(other, flag)| *other != at || never_blocks(flag));
            rest.map(|(_, flag)| *flag).collect::<Vec<_>>().join("|")
        };
        let all = (0..flags.len()).map(without);
        return all.filter(|it| it != word).collect();
    }
    let simple: &[&str] = match word.parse::<i64>() {
        // A flag argument of -1 would become one that lets calls wait.
        Ok(..=0) => &[],
        Ok(1) => &["0"],
        Ok(_) => &["0", "1", "10", "100"],
        Err(_) if word.starts_with('"') || word.starts_with("NAME_") => {
            &["\"a\"", "\"b\"", "\"d\""]
        }
        Err(_) => &[],
    };
    let simple = simple.iter().take_while(|it| **it != word);
    simple.map(|&it| it.to_owned()).collect()
}

/// Returns true for a flag without which a call may wait.
fn never_blocks(flag: &str) -> bool {
    flag.contains("NONBLOCK") || flag.ends_with("_NB") || flag == "MSG_DONTWAIT"
}

#[cfg(test)]
mod tests {
    use super::reduce;

    #[test]
    fn only_what_the_property_needs_is_left() {
        let script = [
            "dup(s1)",
            "open(\"d/e\", O_RDWR|O_CREAT, 0644)",
            "dup(s2)",
            "close(s3)",
        ];
        let has = |script: &[String], what: &str| script.iter().any(|call| call.contains(what));
        let reduced = reduce(script.map(str::to_owned).to_vec(), |script| {
            has(script, "O_CREAT") && has(script, "close")
        });
        assert_eq!(reduced, ["open(\"a\", O_CREAT, 0)", "close(s3)"]);
    }
}
