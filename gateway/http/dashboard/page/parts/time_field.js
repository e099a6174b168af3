// Fields of type `datetime-local`, whose times are in UTC here.

const TO_SECONDS = "2026-01-01T00:00:00".length;

/** A time as the field's value. */
export const inField = (value) => new Date(value).toISOString().slice(0, TO_SECONDS);

/** The field's value, with or without seconds, as RFC 3339. */
export const fromField = (local) => `${local.length < TO_SECONDS ? `${local}:00` : local}Z`;
