//! Bodies of replies, taken apart into fields with names, so that two can be compared but for what
//! no two servers have in common: times, checksums over them, texts for people, addresses.

/// A field that is compared.
pub(crate) type Field = (String, Vec<u8>);

/// Takes a body apart from the front.
struct Shape<'a> {
    rest: &'a [u8],
    fields: Vec<Field>,
    place: String,
}

impl<'a> Shape<'a> {
    fn new(body: &'a [u8]) -> Shape<'a> {
        Shape { rest: body, fields: Vec::new(), place: String::new() }
    }

    fn skip(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = rest;
        bytes
    }

    fn keep(&mut self, name: &str, len: usize) -> &'a [u8] {
        let bytes = self.skip(len);
        self.fields.push((format!("{}{name}", self.place), bytes.to_vec()));
        bytes
    }

    fn u32(&mut self, name: &str) -> usize {
        u32::from_le_bytes(self.keep(name, 4).try_into().unwrap()) as usize
    }

    /// `[length: 1][bytes]`.
    fn short(&mut self, name: &str) {
        let len = usize::from(self.keep("length", 1)[0]);
        self.keep(name, len);
    }

    /// `[length: 4][bytes]`.
    fn long(&mut self, name: &str) {
        let len = self.u32("length");
        self.keep(name, len);
    }

    fn done(mut self) -> Vec<Field> {
        self.fields.push(("rest".to_owned(), self.rest.to_vec()));
        self.fields
    }

    fn stream(&mut self) -> usize {
        self.keep("stream id", 4);
        self.skip(8);
        let topics = self.u32("topics");
        self.keep("size", 8);
        self.keep("messages", 8);
        self.short("name");
        self.long("options");
        topics
    }

    fn topic(&mut self) -> usize {
        self.keep("topic id", 4);
        self.skip(8);
        let partitions = self.u32("partitions");
        for (name, len) in [("expiry", 8), ("compression", 1), ("max size", 8), ("size", 8)] {
            self.keep(name, len);
        }
        self.keep("messages", 8);
        self.short("name");
        self.long("explicit options");
        self.long("derived options");
        partitions
    }

    fn partition(&mut self, number: usize) {
        self.place = format!("partition {number}: ");
        self.keep("id", 4);
        self.skip(8);
        self.keep("segments, offset, size, messages", 28);
        self.place.clear();
    }

    fn topic_with_partitions(&mut self) {
        let partitions = self.topic();
        (0..partitions).for_each(|number| self.partition(number));
    }
}

/// The fields of the body of a reply to `operation`, and to `code` where that is a question.
pub(crate) fn fields(operation: u8, code: u32, body: &[u8]) -> Vec<Field> {
    let mut shape = Shape::new(body);
    match (operation, code) {
        (1, _) => {
            shape.keep("result and user", 8);
            shape.skip(8);
            shape.keep("protocol", 4);
            shape.short("server version");
        }
        (128, _) => {
            shape.keep("result", 4);
            shape.stream();
        }
        (132, _) => {
            shape.keep("result", 4);
            shape.topic_with_partitions();
        }
        (2, 10) => {
            shape.skip(4 + 8);
            shape.skip(8 * 8);
            shape.keep("streams, topics, partitions, segments", 16);
            shape.skip(8);
            // Who is connected is of the moment.
            shape.skip(4);
            shape.keep("groups", 4);
            return shape.fields;
        }
        (2, 12) => {
            shape.long("cluster");
            shape.keep("nodes", 4);
            shape.long("node");
            shape.long("address");
            shape.skip(2);
            shape.keep("other ports, role, status", 8);
        }
        (2, 13) => {
            for _ in 0..shape.u32("options") {
                shape.short("key");
                shape.keep("kind", 1);
                shape.long("default");
                let len = u32::from_le_bytes(shape.skip(4).try_into().unwrap());
                shape.skip(len as usize);
            }
        }
        (2, 20) => {
            shape.skip(4);
            shape.keep("user and transport", 5);
            let len = u32::from_le_bytes(shape.skip(4).try_into().unwrap());
            shape.skip(len as usize);
        }
        (2, 100) => poll(&mut shape),
        (2, 200) => (0..shape.stream()).for_each(|_| {
            shape.topic();
        }),
        (2, 300) => shape.topic_with_partitions(),
        (2, 301) => (0..shape.u32("topics")).for_each(|_| {
            shape.topic();
        }),
        _ => {}
    }
    shape.done()
}

/// A poll's batches, but for what the server stamps by its clock.
fn poll(shape: &mut Shape<'_>) {
    shape.keep("partition, current offset, messages", 16);
    while !shape.rest.is_empty() {
        let header = shape.rest;
        let len = u64::from_le_bytes(header[32..40].try_into().unwrap()) as usize;
        shape.keep("partition and base offset", 16);
        shape.skip(8);
        shape.keep("origin timestamp and length", 16);
        shape.skip(8);
        shape.keep("count, reserved bytes and frames", len - 48);
    }
}
