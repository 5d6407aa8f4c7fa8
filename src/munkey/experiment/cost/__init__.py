"""What a configuration will cost, before its first job."""
