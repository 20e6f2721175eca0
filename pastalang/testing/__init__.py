"""What users need to property-test their own programs and schedules."""
