//! A producer's buffers: a batch costs one frame's checksum, not a copy.

use std::collections::VecDeque;

use bytes::Bytes;
use corelog_format::BATCH_HEADER_LEN;
use corelog_format::layout::batch_header;

use super::template::put_id;
use super::{BatchId, Content};

/// A producer's buffers: batches that the engine has let go of are made into the next ones.
#[derive(Debug)]
pub struct Outbox<'a> {
    content: &'a Content,
    /// For each template, batches handed out, the oldest first.
    sent: Vec<VecDeque<Bytes>>,
}

impl<'a> Outbox<'a> {
    /// An outbox without buffers.
    pub fn new(content: &'a Content) -> Outbox<'a> {
        Outbox { content, sent: vec![VecDeque::new(); content.templates.len()] }
    }

    /// The batch `id`, ready to append.
    pub fn batch(&mut self, id: BatchId) -> Bytes {
        let template = self.content.template(id);
        let sent = &mut self.sent[self.content.template_number(id)];
        let reused = sent.pop_front().map(Bytes::try_into_mut);
        let mut bytes = match reused {
            Some(Ok(bytes)) => bytes,
            // The engine still has the oldest one: another buffer joins.
            Some(Err(busy)) => {
                sent.push_front(busy);
                template.bytes().into()
            }
            None => template.bytes().into(),
        };
        let first_frame = &mut bytes[BATCH_HEADER_LEN..][..template.first_frame_len()];
        put_id(first_frame, id);
        let count = template.message_count();
        let header = self.content.stored_header(id, 0, count, template.header());
        let sum_field = batch_header::BATCH_CHECKSUM;
        bytes[sum_field.at..sum_field.end()].copy_from_slice(&header.batch_checksum.to_le_bytes());
        let bytes = bytes.freeze();
        sent.push_back(bytes.clone());
        bytes
    }
}
