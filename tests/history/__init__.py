"""A history of publishes, pops, acknowledgements and reads, and a checker that holds it to what a store promises."""
