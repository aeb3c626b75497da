//! Messages of the runner: one finding each, in lines of a word and its value.

/// A finding, with addresses instead of functions.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: String,
    pub(super) process: i32,
    pub(super) thread: i32,
    /// Name of the program in the process.
    pub(super) program: String,
    pub(super) fd: i32,
    /// The number of descriptors that it is about.
    pub(super) count: usize,
    /// Name of the open file.
    pub(super) file: String,
    pub(super) events: Vec<Event>,
}

/// A call that is concerned.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) call: String,
    pub(super) process: i32,
    pub(super) thread: i32,
    /// Effect of the call, as `closed`.
    pub(super) what: String,
    pub(super) places: Vec<Place>,
}

/// An address in a file, or in memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) address: u64,
    pub(super) file: Option<String>,
}

impl Message {
    /// Returns the finding of a message.
    pub(super) fn parse(text: &str) -> Self {
        let mut message = Self::default();
        for line in text.lines() {
            let (word, value) = line.split_once(' ').unwrap_or((line, ""));
            let number = || value.parse().unwrap_or_default();
            match word {
                "kind" => message.kind = value.to_owned(),
                "process" => message.process = number(),
                "thread" => message.thread = number(),
                "program" => message.program = value.to_owned(),
                "fd" => message.fd = number(),
                "count" => message.count = value.parse().unwrap_or_default(),
                "file" => message.file = value.to_owned(),
                "event" => message.events.push(Event::parse(value)),
                "at" => {
                    if let Some(event) = message.events.last_mut() {
                        event.places.push(Place::parse(value));
                    }
                }
                _ => {}
            }
        }
        message
    }

    /// Returns the kind for a person.
    pub(super) fn title(&self) -> String {
        self.kind.replace('-', " ")
    }
}

impl Event {
    fn parse(text: &str) -> Self {
        let mut words = text.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        Self {
            call: word().to_owned(),
            process: word().parse().unwrap_or_default(),
            thread: word().parse().unwrap_or_default(),
            what: word().to_owned(),
            places: Vec::new(),
        }
    }
}

impl Place {
    fn parse(text: &str) -> Self {
        let (address, file) = text.split_once(' ').unwrap_or((text, ""));
        Self {
            address: u64::from_str_radix(address, 16).unwrap_or_default(),
            file: (!file.is_empty()).then(|| file.to_owned()),
        }
    }
}
