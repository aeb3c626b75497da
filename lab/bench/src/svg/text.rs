//! The width of words, and how names are broken into lines.
//!
//! The reader's font is unknown, so widths are those of a wide one, and space that is computed with
//! them is sufficient for the others.

/// Size of all text in pixels.
pub(super) const SIZE: f64 = 12.0;

/// Distance of two lines of text in pixels.
pub(super) const LINE: f64 = 15.0;

/// Returns an upper bound for the width of `text` in pixels.
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(em).sum::<f64>() * SIZE
}

/// Returns the width of a character in heights of the font.
fn em(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | 'I' => 0.33,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.96,
        '<' | '>' | '=' | '+' | '÷' | '≤' | '≥' | '→' | '×' => 0.84,
        'A'..='Z' => 0.72,
        _ => 0.63,
    }
}

/// Breaks `text` into lines of at most `most` pixels: between words, and within a word only if that
/// alone is too long, after a punctuation character if possible.
pub(super) fn wrap(text: &str, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in pieces(text, most) {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() || width(line.trim_end()) + width(piece.trim_end()) + gap(line) <= most {
            line.push_str(&piece);
        } else {
            lines.push(piece);
        }
    }
    lines
        .into_iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Returns the width of the blanks at the end of a line. They count if more text follows.
fn gap(line: &str) -> f64 {
    width(&line[line.trim_end().len()..])
}

/// Splits `text` at possible ends of lines.
fn pieces(text: &str, most: f64) -> Vec<String> {
    let mut pieces = Vec::new();
    for word in text.split_inclusive(' ') {
        if width(word.trim_end()) <= most {
            pieces.push(word.to_owned());
            continue;
        }
        let mut piece = String::new();
        for character in word.chars() {
            if !piece.is_empty() && width(&piece) + em(character) * SIZE > most {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.push(character);
            if matches!(character, '<' | ',' | ':' | '_' | '/') {
                pieces.push(std::mem::take(&mut piece));
            }
        }
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_between_words_and_is_not_too_long() {
        let lines = wrap("files_struct under a rwlock, lock held", 160.0);
        assert_eq!(lines, ["files_struct under a", "rwlock, lock held"]);
    }

    #[test]
    fn a_word_that_is_too_long_is_broken_after_a_sign() {
        let lines = wrap("RwLock<HashMap<RawFd, Arc>>", 120.0);
        assert_eq!(lines, ["RwLock<", "HashMap<RawFd,", "Arc>>"]);
    }

    #[test]
    fn nothing_is_lost_and_no_line_is_too_long() {
        let text = "a_name_without_any_blank_that_is_much_too_long and words";
        for most in [20.0, 60.0, 150.0, 1000.0] {
            let lines = wrap(text, most);
            let joined: String = lines.concat().chars().filter(|it| *it != ' ').collect();
            assert_eq!(joined, text.replace(' ', ""), "{most}");
            assert!(lines.iter().all(|line| width(line) <= most), "{lines:?}");
        }
    }
}
