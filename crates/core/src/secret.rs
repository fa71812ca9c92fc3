//! placeholder
/// p
#[derive(Debug)]
pub struct Secret;
